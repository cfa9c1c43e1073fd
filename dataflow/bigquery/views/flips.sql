-- Decisions that two builds of a pair answer differently.
SELECT * EXCEPT (changed)
FROM `${d}.paired_decisions`
WHERE changed
