"""Which questions share a canvas: stages by what waits for what, then as few canvases as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rubrics.canvas import Canvas, NumberedQuestion, build_canvas
from rubrics.dialects import Layout
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Rubric

Stages = Sequence[Sequence[NumberedQuestion]]


def questions_by_stage(rubric: Rubric) -> list[list[NumberedQuestion]]:
    """Questions with their numbers from 1, by the length of the longest chain they wait for."""
    depth: dict[str, int] = {}
    while len(depth) < len(rubric.questions):
        for question in rubric.questions:
            if all(other in depth for other in question.dependencies):
                depth[question.id] = max((depth[o] + 1 for o in question.dependencies), default=0)
    stages: list[list[NumberedQuestion]] = [[] for _ in range(max(depth.values()) + 1)]
    for number, question in enumerate(rubric.questions, 1):
        stages[depth[question.id]].append((number, question))
    return stages


@dataclass(frozen=True)
class Packer:
    """Packs questions into canvases that keep within a length and a number of label ids."""

    encoder: TextEncoder
    layout: Layout
    canvas_length: int
    max_label_ids: int

    def fit_one(self, stages: Stages) -> bool:
        """Whether one canvas answers everything.

        Raises:
            RubricError: a label is not one token in its place.
        """
        first, *others = stages
        alone = any(question.alone for _, question in first)
        return not others and not alone and self._canvas(first) is not None

    def pack(self, stages: Stages) -> tuple[tuple[Canvas, ...], ...]:
        """The canvases of each stage.

        Raises:
            RubricError: every question that fits no canvas and every label without a slot.
        """
        problems: list[str] = []
        packed = tuple(tuple(self._pack_stage(questions, problems)) for questions in stages)
        if problems:
            raise RubricError(problems)
        return packed

    def _pack_stage(
        self, questions: Sequence[NumberedQuestion], problems: list[str]
    ) -> list[Canvas]:
        """As many questions to a canvas as fit, in order; those to be alone come last."""
        canvases: list[Canvas] = []
        group: list[NumberedQuestion] = []
        for entry in sorted(questions, key=lambda numbered: numbered[1].alone):
            try:
                joined = None
                if group and not entry[1].alone:
                    joined = self._canvas([*group, entry])
                if joined is not None:
                    group.append(entry)
                    canvases[-1] = joined
                    continue
                single = self._canvas([entry])
            except RubricError as error:
                problems += error.problems
                continue
            if single is None:
                problems.append(self._too_big(entry))
            else:
                group = [entry]
                canvases.append(single)
        return canvases

    def _canvas(self, questions: Sequence[NumberedQuestion]) -> Canvas | None:
        canvas = build_canvas(self.encoder, self.layout, questions, self.canvas_length)
        return canvas if canvas and len(canvas.label_ids) <= self.max_label_ids else None

    def _too_big(self, entry: NumberedQuestion) -> str:
        number, question = entry
        if len(question.labels) > self.max_label_ids:
            return (
                f"question {question.id}: has {len(question.labels)} options and a read may report "
                f"{self.max_label_ids} labels; raise max_label_ids or give fewer options"
            )
        tokens = len(self.encoder.encode(self.layout.answer(number, question, question.labels[0])))
        return (
            f"question {question.id}: its answer is {tokens} tokens and the end of the turn, "
            f"more than a canvas of {self.canvas_length} holds; shorten its id or use compact"
        )
