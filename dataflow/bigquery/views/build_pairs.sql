-- Two builds that ran the same job on the same date; the baseline is first in the alphabet.
SELECT
  baseline.job,
  baseline.run_date,
  baseline.build AS baseline_build,
  baseline.run_id AS baseline_run_id,
  candidate.build AS candidate_build,
  candidate.run_id AS candidate_run_id
FROM `${d}.latest_runs` AS baseline
JOIN `${d}.latest_runs` AS candidate
  ON baseline.job = candidate.job
  AND baseline.run_date = candidate.run_date
  AND baseline.build < candidate.build
