-- How fast a run was and what its engines cost. Dollars count time inside engine steps at the
-- price of the machine; start-up, reading and writing come on top.
SELECT
  runs.job,
  runs.build,
  runs.run_date,
  runs.run_id,
  runs.machine_type,
  runs.decisions,
  runs.reads,
  runs.seconds,
  SAFE_DIVIDE(runs.decisions, runs.seconds) AS decisions_per_second,
  SAFE_DIVIDE(runs.reads, runs.engine_seconds) AS reads_per_engine_second,
  SAFE_DIVIDE(runs.steps, runs.reads) AS steps_per_read,
  SAFE_DIVIDE(runs.single_pass, runs.reads) AS single_pass_share,
  SAFE_DIVIDE(runs.prompt_tokens_cached, runs.prompt_tokens) AS cached_share,
  runs.engine_seconds / 3600 * prices.dollars_per_hour AS engine_dollars,
  SAFE_DIVIDE(
    runs.engine_seconds / 3600 * prices.dollars_per_hour * 1000, runs.decisions
  ) AS engine_dollars_per_1000_decisions
FROM `${d}.latest_runs` AS runs
LEFT JOIN `${d}.machine_prices` AS prices
  ON prices.machine_type = runs.machine_type
