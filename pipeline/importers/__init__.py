"""Other people's data sets -> conversation shards, rubrics and a job that runs them."""
