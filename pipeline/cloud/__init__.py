"""How a job gets to Dataflow: what its workers need, what is uploaded and sent."""
