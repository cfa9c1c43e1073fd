-- How far a question's answers moved since the previous date of the same build: the total
-- variation of the two mixes, 0 for the same shares and 1 for no answer in common.
WITH dates AS (
  SELECT DISTINCT job, build, rubric_id, rubric_version, question_id, run_date
  FROM `${d}.answer_mix`
),
given AS (
  SELECT DISTINCT job, build, rubric_id, rubric_version, question_id, decision
  FROM `${d}.answer_mix`
),
shares AS (  -- of every answer on every date, 0 where nobody was given it
  SELECT
    dates.*,
    given.decision,
    COALESCE(mix.answers, 0) AS answers,
    COALESCE(mix.share, 0) AS share
  FROM dates
  JOIN given USING (job, build, rubric_id, rubric_version, question_id)
  LEFT JOIN `${d}.answer_mix` AS mix
    USING (job, build, rubric_id, rubric_version, question_id, run_date, decision)
),
moves AS (
  SELECT
    *,
    LAG(run_date) OVER answer AS previous_date,
    ABS(share - LAG(share) OVER answer) AS moved
  FROM shares
  WINDOW answer AS (
    PARTITION BY job, build, rubric_id, rubric_version, question_id, decision
    ORDER BY run_date
  )
)
SELECT
  job,
  build,
  rubric_id,
  rubric_version,
  question_id,
  run_date,
  previous_date,
  SUM(answers) AS answers,
  SUM(moved) / 2 AS total_variation
FROM moves
WHERE previous_date IS NOT NULL
GROUP BY job, build, rubric_id, rubric_version, question_id, run_date, previous_date
