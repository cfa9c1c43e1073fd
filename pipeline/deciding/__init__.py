"""How conversations are decided: cases, reads, the engine behind RunInference, rows."""
