"""The embedded model's tokenizer: Gemma's control tokens at Gemma's ids, over a small vocabulary.

Like Gemma's it writes spaces as `▁`, keeps case, splits numbers into digits, gives the newline a
token of its own and falls back to bytes, so that any text comes back unchanged.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

VOCAB_SIZE = 4096
CONTROL_TOKENS = {
    0: "<pad>",
    1: "<eos>",
    2: "<bos>",
    3: "<unk>",
    46: "<|tool>",
    47: "<tool|>",
    48: "<|tool_call>",
    49: "<tool_call|>",
    50: "<|tool_response>",
    51: "<tool_response|>",
    52: '<|"|>',
    98: "<|think|>",
    100: "<|channel>",
    101: "<channel|>",
    103: "<|image>",
    104: "<|image_soft|>",
    105: "<|turn>",
    106: "<turn|>",
}
"""Ids as in the released model, but for the two of images, which lie beyond this vocabulary."""

NEWLINE_ID = 107
FIRST_BYTE_ID = 108
_FIRST_LEARNT_ID = FIRST_BYTE_ID + 256
_LABELS = ("yes", "no", *string.ascii_uppercase, *string.digits)
_PIECES = (
    r"\n"
    r"|▁?\p{L}+(?:['’]\p{L}+)*"  # a word with the space before it
    r"|▁?\p{N}"  # digits one by one
    r"|[!?.]{2,}"
    r"|▁?[^\s▁\p{L}\p{N}]"
    r"|▁"
)


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """A tokenizer of `VOCAB_SIZE` tokens fitted to the texts; equal texts give an equal one."""
    learner = _with_pieces(models.BPE(byte_fallback=True))
    characters = sorted({*string.printable.strip(), "▁", "’"})
    trainer = BpeTrainer(
        vocab_size=VOCAB_SIZE - _FIRST_LEARNT_ID,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        min_frequency=2,
        show_progress=False,
    )
    # Labels must be single tokens both at the start of a line and after a space.
    labels = [f"{label} {label}\n" for label in _LABELS] * 2000
    learner.train_from_iterator([*texts, *labels], trainer)
    learnt = json.loads(learner.to_str())["model"]
    return _assemble(learnt["vocab"], [tuple(pair) for pair in learnt["merges"]])


def _assemble(learnt: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    vocabulary = {CONTROL_TOKENS.get(i, f"<unused{i}>"): i for i in range(NEWLINE_ID)}
    vocabulary["\n"] = NEWLINE_ID
    vocabulary.update({f"<0x{b:02X}>": FIRST_BYTE_ID + b for b in range(256)})
    controls = [token for token, i in vocabulary.items() if i < NEWLINE_ID]
    for token in sorted(learnt, key=learnt.__getitem__):
        vocabulary.setdefault(token, len(vocabulary))
    while len(vocabulary) < VOCAB_SIZE:  # the texts held fewer words than there is room for
        token = f"<unused{len(vocabulary)}>"
        controls.append(token)
        vocabulary[token] = len(vocabulary)
    model = models.BPE(
        vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
    )
    tokenizer = _with_pieces(model)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in controls]
    )
    return tokenizer


def _with_pieces(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def tokenizer_config() -> dict[str, Any]:
    """Contents of `tokenizer_config.json`, for Transformers and vLLM."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 8192,
    }
