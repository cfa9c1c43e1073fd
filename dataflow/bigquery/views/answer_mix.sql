-- How a question was answered on a date: the share of every answer among those asked.
SELECT
  job,
  build,
  run_date,
  rubric_id,
  rubric_version,
  question_id,
  decision,
  COUNT(*) AS answers,
  COUNT(*) / SUM(COUNT(*)) OVER (
    PARTITION BY job, build, run_date, rubric_id, rubric_version, question_id
  ) AS share
FROM `${d}.latest_decisions`
WHERE decision IS NOT NULL
GROUP BY job, build, run_date, rubric_id, rubric_version, question_id, decision
