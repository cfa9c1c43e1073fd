"""What a job would take: engine steps, hours and dollars, without a model."""
