"""Text to token ids, such that no text can become a control token.

A fast tokenizer finds its added tokens in any text it encodes, so a message that spells out
`<turn|>` would end the turn. `TextEncoder` encodes text with a second tokenizer, made of the first
by taking the control tokens out of its added tokens, its vocabulary and its merges: it has no way
to produce their ids. All other text keeps the ids it had.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from rubrics.errors import RubricError

# Gemma keeps runs of white space and these HTML tags as added tokens; they are text. Any other
# added token is taken for a control token, whether the tokenizer calls it special or not.
_HTML_TAG = re.compile(
    r"</?(a|b|bbox|blockquote|body|br|caption|code|div|em|footer|h[1-6]|hr|html|i|iframe|img|li|ol|p"
    r"|pre|s|span|strong|sub|sup|table|tbody|td|tfoot|th|thead|tr|u|ul)>"
)
_WHITE_SPACE = re.compile(r"[\s▁]+")

_TURNS = (("<|turn>", "<turn|>"), ("<start_of_turn>", "<end_of_turn>"))
_CHANNEL = ("<|channel>", "<channel|>")


class TextEncoder:
    """Encodes text as text, and knows the ids that structure a prompt.

    Attributes:
        bos, pad: ids of `<bos>` and `<pad>`.
        turn: ids that open and close a turn: `<|turn>`, `<turn|>` or Gemma 3's names for them.
        channel: ids that open and close a channel; None where the tokenizer has none.
        control_ids: ids that `encode` never returns.

    Raises:
        RubricError: the tokenizer lacks a structural token, truncates or pads, or its model is
            of a kind whose vocabulary cannot be reduced.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.truncation is not None or tokenizer.padding is not None:
            raise RubricError(
                ["tokenizer: truncates or pads; call no_truncation() and no_padding() on it first"]
            )
        self._original = tokenizer
        self.bos = self._structural("<bos>")
        self.pad = self._structural("<pad>")
        gemma3 = tokenizer.token_to_id(_TURNS[0][0]) is None
        self.turn = tuple(self._structural(name) for name in _TURNS[gemma3])
        has_channel = tokenizer.token_to_id(_CHANNEL[0]) is not None
        self.channel = tuple(map(self._structural, _CHANNEL)) if has_channel else None
        controls = _control_tokens(tokenizer)
        for token_id in (self.bos, self.pad, *self.turn, *(self.channel or ())):
            controls[self.token(token_id)] = token_id
        self._text_only = _without(tokenizer, controls)
        self.control_ids = frozenset(controls.values()) - {*self._text_only.get_vocab().values()}

    def _structural(self, name: str) -> int:
        token_id = self._original.token_to_id(name)
        if token_id is None:
            raise RubricError([f"tokenizer: has no token {name!r}; use the model's own tokenizer"])
        return int(token_id)

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of the text; none of them is a control token's."""
        return tuple(self._text_only.encode(text, add_special_tokens=False).ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Characters (start, end) each token of `encode` stands for."""
        return list(self._text_only.encode(text, add_special_tokens=False).offsets)

    def count_control_tokens(self, text: str) -> int:
        """How many control tokens the text would hold if it were not encoded as text."""
        ids = self._original.encode(text, add_special_tokens=False).ids
        return sum(token_id in self.control_ids for token_id in ids)

    def token(self, token_id: int) -> str:
        """The token of an id, for messages and displays."""
        return self._original.id_to_token(token_id) or f"<{token_id}>"


def ids_sha256(ids: Sequence[int]) -> str:
    """SHA-256 (hex) of token ids as little-endian 32-bit integers."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def _control_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    return {
        added.content: token_id
        for token_id, added in tokenizer.get_added_tokens_decoder().items()
        if added.special
        or not (_WHITE_SPACE.fullmatch(added.content) or _HTML_TAG.fullmatch(added.content))
    }


def _without(tokenizer: Tokenizer, controls: dict[str, int]) -> Tokenizer:
    """A copy of the tokenizer that does not know the control tokens.

    Tokens for characters outside the vocabulary (the unknown token, single bytes) stay in it, but
    are no longer found in a text that spells them out.
    """
    parts: dict[str, Any] = json.loads(tokenizer.to_str())
    model = parts["model"]
    vocabulary = model["vocab"]
    if not isinstance(vocabulary, dict):
        raise RubricError(
            [
                f"tokenizer: a {model['type']} model cannot do without its control tokens; "
                "use a BPE, WordPiece or WordLevel one"
            ]
        )
    spare = {model.get("unk_token")}
    if model.get("byte_fallback"):
        spare |= {f"<0x{byte:02X}>" for byte in range(256)}
    removed = controls.keys() - spare
    added = [token for token in parts["added_tokens"] if token["content"] not in controls]
    # An added token gets the next free id unless the vocabulary has it: keep each where it was.
    vocabulary.update({token["content"]: token["id"] for token in added})
    for name in removed:
        vocabulary.pop(name, None)
    if "merges" in model:
        model["merges"] = [
            (left, right)
            for left, right in model["merges"]
            if left not in removed and right not in removed and left + right not in removed
        ]
    parts.update(added_tokens=added, post_processor=None)
    copy = Tokenizer.from_str(json.dumps(parts))
    expected = {
        token: token_id for token, token_id in tokenizer.get_vocab().items() if token not in removed
    }
    if copy.get_vocab() != expected:
        raise RubricError(
            [
                "tokenizer: other ids move when its control tokens are taken out; "
                "use the model's own tokenizer.json"
            ]
        )
    return copy
