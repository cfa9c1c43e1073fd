"""Statistics for comparing two runs of decisions: intervals, tests, distances, agreement.

Tests and single-sample intervals are scipy's and statsmodels'; what is here adapts them to paired,
clustered, sharded data. Rates are fractions, divergences nats, confidence two-sided unless said.
"""
