-- Where conversations state the expected answer: what the probabilities promised and what came
-- true, in ten bins of the decision's probability.
SELECT
  job,
  build,
  rubric_id,
  rubric_version,
  question_id,
  LEAST(CAST(FLOOR(probability * 10) AS INT64), 9) AS bin,
  COUNT(*) AS decisions,
  AVG(probability) AS mean_probability,
  COUNTIF(correct) / COUNT(*) AS accuracy
FROM `${d}.latest_decisions`
WHERE gold IS NOT NULL AND decision IS NOT NULL
GROUP BY job, build, rubric_id, rubric_version, question_id, bin
