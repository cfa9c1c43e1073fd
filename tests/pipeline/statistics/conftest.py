"""Hypothesis here judges results, not speed: a busy machine is no falsifying example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("statistics", deadline=None, max_examples=50)
settings.load_profile("statistics")
