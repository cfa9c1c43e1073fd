"""Compiled rubrics: canvases, stages, and what is refused."""

from __future__ import annotations

import pytest

from rubrics.compiler import compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.model import load_rubric


@pytest.mark.parametrize(("dialect", "width"), [("lines", 32), ("compact", 16)])
def test_triage_on_the_gemma_vocabulary(gemma: TextEncoder, dialect: str, width: int) -> None:
    compiled = compile_rubric(load_rubric("triage"), gemma, dialect=dialect)
    (canvas,) = compiled.canvases
    assert canvas.width == len(canvas.template_ids) == width
    assert canvas.question_ids == ("topic", "urgency", "asks_for_human", "frustration")
    assert [len(slot.label_ids) for slot in canvas.slots] == [3, 3, 2, 5]
    assert len(compiled.shared_prefix_ids) < 200
