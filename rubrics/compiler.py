"""Compiles a rubric for a tokenizer: which canvases, in which stages, behind which prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from tokenizers import Tokenizer

from rubrics.canvas import Canvas, NumberedQuestion, Slot, build_canvas
from rubrics.dialects import Layout, compact, lines
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Question, Rubric
from rubrics.prompt import Message, OnTooLong, Prompt, PromptWriter

Dialect = Literal["lines", "compact"]

_LAYOUTS = {"lines": lines.layouts, "compact": compact.layouts}


@dataclass(frozen=True)
class CompiledRubric:
    """A rubric ready to be asked.

    Attributes:
        stages: canvases by stage; a stage needs the answers of those before it, in its prompt.
        system_text: the rubric as the prompt phrases it.
    """

    rubric: Rubric
    dialect: Dialect
    stages: tuple[tuple[Canvas, ...], ...]
    system_text: str
    writer: PromptWriter

    @cached_property
    def canvases(self) -> tuple[Canvas, ...]:
        """Canvases of all stages, in order."""
        return tuple(chain.from_iterable(self.stages))

    @property
    def shared_prefix_ids(self) -> tuple[int, ...]:
        """What every prompt of this rubric begins with, up to the conversation."""
        return self.writer.prefix_ids

    def slot(self, question_id: str) -> Slot:
        """The slot of a question, wherever it is."""
        for canvas in self.canvases:
            if question_id in canvas.question_ids:
                return canvas.slot(question_id)
        raise KeyError(question_id)

    def prompt(
        self,
        messages: Sequence[Message],
        answers: Mapping[str, int] | None = None,
        *,
        max_tokens: int | None = None,
        on_too_long: OnTooLong = "reject",
    ) -> Prompt:
        """The prompt of a conversation for the stage that follows these answers.

        Args:
            messages: the conversation, in order.
            answers: question id -> option index, of questions of earlier stages that were asked.
            max_tokens: most tokens the prompt may have, with room for all chained answers.
            on_too_long: refuse, or cut the conversation's beginning (`keep_recent`) or its end
                (`keep_first`): whole messages, then tokens of the next one.

        Raises:
            PromptError: the conversation is empty, too long, or holds a lone surrogate.
        """
        return self.writer.write(messages, answers or {}, max_tokens, on_too_long)

    def skipped_because(self, question_id: str, answers: Mapping[str, int]) -> str | None:
        """The question whose answer forbids this one, or None if it is to be asked.

        Args:
            question_id: question in doubt.
            answers: question id -> option index of all answered questions; a question that was
                skipped is not there, which forbids those that ask for its answer.
        """
        for other, names in self.rubric.question(question_id).ask_if.items():
            allowed = {self.rubric.question(other).find(name) for name in names}
            if answers.get(other) not in allowed:
                return other
        return None


def compile_rubric(
    rubric: Rubric,
    tokenizer: Tokenizer | TextEncoder,
    *,
    dialect: Dialect = "lines",
    canvas_length: int = 64,
    max_label_ids: int = 128,
) -> CompiledRubric:
    """Compiles a rubric, with proof that every label is one token in its slot.

    Args:
        rubric: what to ask.
        tokenizer: the model's, or an encoder made of it once for several rubrics.
        dialect: how to phrase it.
        canvas_length: widest canvas the engine serves, in tokens.
        max_label_ids: most distinct label ids one canvas may have.

    Raises:
        RubricError: everything that keeps the rubric from compiling.
    """
    encoder = tokenizer if isinstance(tokenizer, TextEncoder) else TextEncoder(tokenizer)
    numbered = _stages(rubric)
    for layout in _LAYOUTS[dialect](rubric):
        if layout.needs_one_canvas and (
            len(numbered) > 1 or any(q.alone for q in rubric.questions)
        ):
            continue
        problems: list[str] = []
        stages = []
        for questions in numbered:
            try:
                stages.append(_pack(encoder, layout, questions, canvas_length, max_label_ids))
            except RubricError as error:
                problems += error.problems
        if problems:
            raise RubricError(f"rubric {rubric.id}, dialect {dialect}, {p}" for p in problems)
        if layout.needs_one_canvas and len(stages[0]) > 1:
            continue
        break
    answer_lines = {
        question.id: [layout.answer(number, question, label) for label in question.labels]
        for questions in numbered[:-1]
        for number, question in questions
    }
    system_text = layout.system_text(rubric)
    writer = PromptWriter(encoder, system_text, answer_lines)
    return CompiledRubric(rubric, dialect, tuple(stages), system_text, writer)


def _stages(rubric: Rubric) -> list[list[NumberedQuestion]]:
    """Numbered questions by the length of the longest chain they wait for."""
    depth: dict[str, int] = {}
    waiting = {question.id: question for question in rubric.questions}
    while waiting:
        for question in list(waiting.values()):
            if all(other in depth for other in question.dependencies):
                depth[question.id] = max((depth[o] + 1 for o in question.dependencies), default=0)
                del waiting[question.id]
    stages: list[list[NumberedQuestion]] = [[] for _ in range(max(depth.values()) + 1)]
    for number, question in enumerate(rubric.questions, 1):
        stages[depth[question.id]].append((number, question))
    return stages


def _pack(
    encoder: TextEncoder,
    layout: Layout,
    questions: Sequence[NumberedQuestion],
    canvas_length: int,
    max_label_ids: int,
) -> tuple[Canvas, ...]:
    """Questions in order, as many to a canvas as fit; `alone` questions by themselves."""
    canvases: list[Canvas] = []
    problems: list[str] = []
    group: list[NumberedQuestion] = []
    group_canvas: Canvas | None = None
    for entry in questions:
        question: Question = entry[1]
        try:
            joined = None
            if group_canvas is not None and not question.alone:
                joined = build_canvas(encoder, layout, [*group, entry], canvas_length)
            if joined is not None and len(joined.label_ids) <= max_label_ids:
                group, group_canvas = [*group, entry], joined
                continue
            single = build_canvas(encoder, layout, [entry], canvas_length)
        except RubricError as error:
            problems += error.problems
            continue
        if single is None or len(single.label_ids) > max_label_ids:
            problems.append(_too_big(encoder, layout, entry, canvas_length, max_label_ids))
            continue
        if group_canvas is not None:
            canvases.append(group_canvas)
        if question.alone:
            canvases.append(single)
            group, group_canvas = [], None
        else:
            group, group_canvas = [entry], single
    if group_canvas is not None:
        canvases.append(group_canvas)
    if problems:
        raise RubricError(problems)
    return tuple(canvases)


def _too_big(
    encoder: TextEncoder,
    layout: Layout,
    entry: NumberedQuestion,
    canvas_length: int,
    max_label_ids: int,
) -> str:
    number, question = entry
    if len(question.labels) > max_label_ids:
        return (
            f"question {question.id}: has {len(question.labels)} options and a read may report "
            f"{max_label_ids} labels; raise max_label_ids or give fewer options"
        )
    tokens = len(encoder.encode(layout.answer(number, question, question.labels[0])))
    return (
        f"question {question.id}: its answer is {tokens} tokens and the end of the turn, more than "
        f"a canvas of {canvas_length} holds; shorten its id or use the compact dialect"
    )
