-- How far a question's answers moved since the previous date of the same build: the total
-- variation of the two mixes, 0 for the same shares and 1 for no answer in common.
WITH dates AS (
  SELECT
    job,
    build,
    rubric_id,
    rubric_version,
    question_id,
    run_date,
    SUM(answers) AS answers,
    LAG(run_date) OVER (
      PARTITION BY job, build, rubric_id, rubric_version, question_id
      ORDER BY run_date
    ) AS previous_date
  FROM `${d}.answer_mix`
  GROUP BY job, build, rubric_id, rubric_version, question_id, run_date
),
given AS (
  SELECT DISTINCT job, build, rubric_id, rubric_version, question_id, decision
  FROM `${d}.answer_mix`
)
SELECT
  dates.job,
  dates.build,
  dates.rubric_id,
  dates.rubric_version,
  dates.question_id,
  dates.run_date,
  dates.previous_date,
  dates.answers,
  SUM(ABS(COALESCE(present.share, 0) - COALESCE(past.share, 0))) / 2 AS total_variation
FROM dates
JOIN given
  ON given.job = dates.job
  AND given.build = dates.build
  AND given.rubric_id = dates.rubric_id
  AND given.rubric_version = dates.rubric_version
  AND given.question_id = dates.question_id
LEFT JOIN `${d}.answer_mix` AS present
  ON present.job = dates.job
  AND present.build = dates.build
  AND present.rubric_id = dates.rubric_id
  AND present.rubric_version = dates.rubric_version
  AND present.question_id = dates.question_id
  AND present.run_date = dates.run_date
  AND present.decision = given.decision
LEFT JOIN `${d}.answer_mix` AS past
  ON past.job = dates.job
  AND past.build = dates.build
  AND past.rubric_id = dates.rubric_id
  AND past.rubric_version = dates.rubric_version
  AND past.question_id = dates.question_id
  AND past.run_date = dates.previous_date
  AND past.decision = given.decision
WHERE dates.previous_date IS NOT NULL
GROUP BY
  dates.job,
  dates.build,
  dates.rubric_id,
  dates.rubric_version,
  dates.question_id,
  dates.run_date,
  dates.previous_date,
  dates.answers
