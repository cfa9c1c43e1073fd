-- The last complete run of every job, build and date. A run without a row in `runs` is unfinished
-- or failed, whatever files it left.
SELECT *
FROM `${d}.runs`
WHERE TRUE
QUALIFY
  ROW_NUMBER() OVER (
    PARTITION BY job, build, run_date
    ORDER BY finished_at DESC, run_id DESC
  ) = 1
