"""What can be wrong with a rubric, and with a conversation it is asked about."""

from __future__ import annotations

from collections.abc import Iterable


class RubricError(Exception):
    """A rubric (or its tokenizer) that cannot be used.

    Attributes:
        problems: everything that is wrong, one sentence each, naming thing, value and remedy.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[RubricError], tuple[list[str]]]:
        return type(self), (self.problems,)


class PromptError(ValueError):
    """A conversation that cannot become a prompt. The message never holds its text."""

    code = "prompt"


class EmptyConversation(PromptError):  # noqa: N818
    """No message has anything but white space."""

    code = "empty_conversation"

    def __init__(
        self, message: str = "the conversation is empty: every message is blank; send some text"
    ) -> None:
        super().__init__(message)


class UnencodableText(PromptError):  # noqa: N818
    """A message holds half of a UTF-16 surrogate pair, which is no character."""

    code = "unencodable_text"

    def __init__(self, message_index: int) -> None:
        self.message_index = message_index
        super().__init__(
            f"message {message_index}: lone surrogate in the text; replace it before sending"
        )

    def __reduce__(self) -> tuple[type[UnencodableText], tuple[int]]:
        return type(self), (self.message_index,)


class PromptTooLong(PromptError):  # noqa: N818
    """The prompt does not fit.

    Attributes:
        tokens: length the prompt would have, in tokens, with room for chained answers.
        limit: most tokens it may have.
    """

    code = "prompt_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        self.tokens = tokens
        self.limit = limit
        super().__init__(
            f"the prompt is {tokens} tokens long and may be {limit}; shorten the conversation, "
            "set on_too_long to keep_recent or keep_first, or raise max_model_len"
        )

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[int, int]]:
        return type(self), (self.tokens, self.limit)
