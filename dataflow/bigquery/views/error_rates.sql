-- What could not be decided, by cause, as a share of all outcomes of the run.
SELECT
  runs.job,
  runs.build,
  runs.run_date,
  runs.run_id,
  errors.stage,
  errors.code,
  COUNT(*) AS errors,
  COUNT(*) / (runs.errors + runs.decided_cases) AS share
FROM `${d}.latest_runs` AS runs
JOIN `${d}.errors` AS errors
  ON errors.run_date = runs.run_date
  AND errors.build = runs.build
  AND errors.run_id = runs.run_id
GROUP BY
  runs.job,
  runs.build,
  runs.run_date,
  runs.run_id,
  errors.stage,
  errors.code,
  runs.errors,
  runs.decided_cases
