"""Prompts: the rubric first, so that it is a prefix all conversations share, then the conversation.

    bos | system turn: rubric | user turn: conversation | model turn: empty thought, answers so far

A later stage's prompt is an earlier one's with answer lines appended. Each message is encoded on
its own as `role: content` and a newline; roles and contents are text to the model, whatever they
spell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol

from rubrics.encoding import TextEncoder, ids_sha256
from rubrics.errors import EmptyConversation, PromptTooLong, UnencodableText

OnTooLong = Literal["reject", "keep_recent", "keep_first"]


class Message(Protocol):
    """One message of a conversation."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What goes before a canvas.

    Attributes:
        ids: token ids of the whole prompt.
        conversation_ids_sha256: of the ids of the conversation part alone; the same under every
            rubric, dialect and stage, so it keys the noise of the canvas.
        escaped_control_tokens: control tokens that the text spells out and that became text.
        dropped_tokens: tokens of the conversation that were cut to make the prompt fit.
    """

    ids: tuple[int, ...]
    conversation_ids_sha256: str
    escaped_control_tokens: int
    dropped_tokens: int

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the prompt's ids."""
        return ids_sha256(self.ids)


class PromptWriter:
    """Writes the prompts of one rubric; the rubric's part is encoded once.

    Args:
        encoder: of the model's tokenizer.
        system_text: the rubric, phrased.
        answer_lines: question id -> text of its answer line for each option, in the order in which
            answers are shown.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        system_text: str,
        answer_lines: Mapping[str, Sequence[str]],
    ) -> None:
        self._encoder = encoder
        opens, closes = encoder.turn
        encode = encoder.encode
        self.prefix_ids = (
            encoder.bos,
            opens,
            *encode(f"system\n{system_text}"),
            closes,
            *encode("\n"),
            opens,
            *encode("user\n"),
        )
        thought: tuple[int, ...] = ()
        if encoder.channel is not None:
            thought = (encoder.channel[0], *encode("thought\n"), encoder.channel[1])
        self._suffix_ids = (closes, *encode("\n"), opens, *encode("model\n"), *thought)
        self._answer_ids = {
            question_id: [encode(f"{line}\n") for line in lines]
            for question_id, lines in answer_lines.items()
        }
        # Room for the longest answers, so that a conversation that fits fits at every stage.
        self._answers_room = sum(max(map(len, ids)) for ids in self._answer_ids.values())

    def write(
        self,
        messages: Sequence[Message],
        answers: Mapping[str, int],
        max_tokens: int | None,
        on_too_long: OnTooLong,
    ) -> Prompt:
        """The prompt for a conversation and the answers so far (question id -> option index)."""
        texts = [_text(message.role, message.content) for message in messages]
        for index, text in enumerate(texts):
            if not _is_unicode(text):
                raise UnencodableText(index)
        if not any(message.content.strip() for message in messages):
            raise EmptyConversation
        encoded = [self._encoder.encode(text) for text in texts]
        total = sum(map(len, encoded))
        fixed = len(self.prefix_ids) + len(self._suffix_ids) + self._answers_room
        if max_tokens is not None and fixed + total > max_tokens:
            texts = []
            if on_too_long != "reject":
                lengths = list(map(len, encoded))
                recent = on_too_long == "keep_recent"
                texts = self._fit(messages, lengths, max_tokens - fixed, recent)
            if not texts:
                raise PromptTooLong(fixed + total, max_tokens)
            encoded = [self._encoder.encode(text) for text in texts]
        conversation = tuple(chain.from_iterable(encoded))
        return Prompt(
            ids=(*self.prefix_ids, *conversation, *self._suffix_ids, *self.answer_ids(answers)),
            conversation_ids_sha256=ids_sha256(conversation),
            escaped_control_tokens=sum(map(self._encoder.count_control_tokens, texts)),
            dropped_tokens=total - len(conversation),
        )

    def answer_ids(self, answers: Mapping[str, int]) -> tuple[int, ...]:
        """What answers add to a prompt, at its end: their lines' ids."""
        for question_id in answers.keys() - self._answer_ids.keys():
            raise KeyError(f"{question_id!r} is not answered before another question")
        answered = (
            lines[answers[question_id]]
            for question_id, lines in self._answer_ids.items()
            if question_id in answers
        )
        return tuple(chain.from_iterable(answered))

    def _fit(
        self, messages: Sequence[Message], lengths: Sequence[int], room: int, recent: bool
    ) -> list[str]:
        """The messages that fit into `room` tokens, counted from the end kept; the next is cut."""
        kept: list[str] = []
        numbered = list(zip(messages, lengths, strict=True))
        for message, length in reversed(numbered) if recent else numbered:
            if length > room:
                part = self._cut(message, room, recent)
                kept += [part] if part else []
                break
            kept.append(_text(message.role, message.content))
            room -= length
        return kept[::-1] if recent else kept

    def _cut(self, message: Message, room: int, recent: bool) -> str | None:
        """The message with its content cut to `room` tokens, or None if nothing of it is left."""
        content = message.content
        start = len(_text(message.role, "")) - 1
        while content:
            text = _text(message.role, content)
            spans = self._encoder.spans(text)
            excess = len(spans) - room
            if excess <= 0:
                return text
            inside = [(a - start, b - start) for a, b in spans if a >= start and b < len(text)]
            if excess >= len(inside):
                return None
            # At least one character goes each time, whatever the spans say.
            if recent:
                content = content[max(inside[excess - 1][1], 1) :]
            else:
                content = content[: min(inside[-excess][0], len(content) - 1)]
        return None


def _text(role: str, content: str) -> str:
    return f"{role}: {content}\n"


def _is_unicode(text: str) -> bool:
    """Whether there is no lone surrogate in it: they are what UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
