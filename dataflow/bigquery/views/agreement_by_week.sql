-- How often two builds agree, per question and week (weeks start on Monday).
WITH compared AS (
  SELECT
    pairs.job,
    DATE_TRUNC(pairs.run_date, ISOWEEK) AS week,
    pairs.baseline_build,
    pairs.candidate_build,
    baseline.rubric_id,
    baseline.rubric_version,
    baseline.question_id,
    baseline.decision IS DISTINCT FROM candidate.decision AS changed
  FROM `${d}.build_pairs` AS pairs
  JOIN `${d}.decisions` AS baseline
    ON baseline.run_date = pairs.run_date
    AND baseline.build = pairs.baseline_build
    AND baseline.run_id = pairs.baseline_run_id
  JOIN `${d}.decisions` AS candidate
    ON candidate.run_date = pairs.run_date
    AND candidate.build = pairs.candidate_build
    AND candidate.run_id = pairs.candidate_run_id
    AND candidate.conversation_id = baseline.conversation_id
    AND candidate.rubric_id = baseline.rubric_id
    AND candidate.rubric_version = baseline.rubric_version
    AND candidate.question_id = baseline.question_id
)
SELECT
  job,
  week,
  baseline_build,
  candidate_build,
  rubric_id,
  rubric_version,
  question_id,
  COUNT(*) AS decisions,
  COUNTIF(changed) AS flips,
  1 - COUNTIF(changed) / COUNT(*) AS agreement
FROM compared
GROUP BY job, week, baseline_build, candidate_build, rubric_id, rubric_version, question_id
