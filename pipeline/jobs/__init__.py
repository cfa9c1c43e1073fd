"""What is to be done: a job with all it names, and its run from the first check to the last."""
