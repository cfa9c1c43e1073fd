-- How often two builds agree, per question and week (weeks start on Monday).
SELECT
  job,
  DATE_TRUNC(run_date, ISOWEEK) AS week,
  baseline_build,
  candidate_build,
  rubric_id,
  rubric_version,
  question_id,
  COUNT(*) AS decisions,
  COUNTIF(changed) AS flips,
  1 - COUNTIF(changed) / COUNT(*) AS agreement
FROM `${d}.paired_decisions`
GROUP BY job, week, baseline_build, candidate_build, rubric_id, rubric_version, question_id
