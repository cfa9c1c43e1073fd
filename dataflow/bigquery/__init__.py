"""The tables in BigQuery: statements that create, load and view them."""
