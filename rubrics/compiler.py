"""Compiles a rubric for a tokenizer: which canvases, in which stages, behind which prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from tokenizers import Tokenizer

from rubrics.canvas import Canvas, Slot
from rubrics.dialects import compact, lines
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Rubric
from rubrics.packing import Packer, questions_by_stage
from rubrics.prompt import Message, OnTooLong, Prompt, PromptWriter

Dialect = Literal["lines", "compact"]

_LAYOUTS = {"lines": lines.layouts, "compact": compact.layouts}


@dataclass(frozen=True)
class CompiledRubric:
    """A rubric ready to be asked.

    Attributes:
        stages: canvases by stage; a stage needs the answers of those before it, in its prompt.
        system_text: the rubric as the prompt phrases it.
        writer: writes the prompts; use `prompt`.
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

    def answer_ids(self, answers: Mapping[str, int]) -> tuple[int, ...]:
        """Ids that turn the first stage's prompt into that of the stage behind these answers.

        A conversation's text is needed for its first prompt only.
        """
        return self.writer.answer_ids(answers)

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
    numbered = questions_by_stage(rubric)
    try:
        for layout in _LAYOUTS[dialect](rubric):
            packer = Packer(encoder, layout, canvas_length, max_label_ids)
            if not layout.needs_one_canvas or packer.fit_one(numbered):
                break
        stages = packer.pack(numbered)
    except RubricError as error:
        where = f"rubric {rubric.id}, dialect {dialect}"
        raise RubricError(f"{where}, {problem}" for problem in error.problems) from error
    answer_lines = {
        question.id: [layout.answer(number, question, label) for label in question.labels]
        for questions in numbered[:-1]
        for number, question in questions
    }
    system_text = layout.system_text(rubric)
    writer = PromptWriter(encoder, system_text, answer_lines)
    return CompiledRubric(rubric, dialect, stages, system_text, writer)
