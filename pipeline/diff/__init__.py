"""Comparing runs: what decisions differ between builds, by how much, and beyond which noise.

Parts of the runs are joined one by one (`units`, `join`), so memory does not depend on how many
decisions there are; conversations that lie in different parts of the runs go through a shuffle
(`leftovers`). A first pass (`survey`) decides whether the runs can be compared at all and how much
a repeat run moves; the second (`measure`) writes the `diffs` table and adds up what `summary`
turns into rates, intervals and tests. `compare` composes them into one Beam pipeline.
"""
