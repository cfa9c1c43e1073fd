-- What two builds of a pair decided about the same question of a conversation; `changed` is also
-- true where only one of them asked it.
SELECT
  pairs.job,
  pairs.run_date,
  pairs.baseline_build,
  pairs.candidate_build,
  baseline.conversation_id,
  baseline.rubric_id,
  baseline.rubric_version,
  baseline.question_id,
  baseline.decision AS baseline_decision,
  candidate.decision AS candidate_decision,
  baseline.probability AS baseline_probability,
  candidate.probability AS candidate_probability,
  LEAST(baseline.margin, candidate.margin) AS smaller_margin,
  baseline.gold,
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
