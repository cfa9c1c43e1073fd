-- The decisions of those runs, with the job's name.
SELECT runs.job, decisions.*
FROM `${d}.decisions` AS decisions
JOIN `${d}.latest_runs` AS runs
  ON decisions.run_date = runs.run_date
  AND decisions.build = runs.build
  AND decisions.run_id = runs.run_id
