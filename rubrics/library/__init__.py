"""Rubrics that ship, as YAML; `load_rubric("triage")` finds them by name."""
