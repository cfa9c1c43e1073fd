"""Joins rubrics and the synthetic corpus: training and measuring the embedded model."""
