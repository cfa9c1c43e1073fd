"""The demonstration's data: conversations of the corpus as shards, with right answers as gold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from engine.tiny.corpus import Corpus, LabelledConversation
from pipeline.tiny.evaluation import gold_of, heldout

DEMO_SEEDS = {"app": range(900_000, 900_014), "web": range(910_000, 910_014)}
"""Channel -> seeds of its shard; other seeds than the held-out evaluation's."""

HELDOUT_ITEMS = 300


def write_demo_data(folder: Path) -> list[Path]:
    """Write `conversations/<channel>.jsonl` and `heldout.jsonl`; returns the files."""
    corpus = Corpus("heldout")
    written = []
    for channel, seeds in DEMO_SEEDS.items():
        records = (_record(corpus.conversation(seed), channel) for seed in seeds)
        written.append(_write(folder / "conversations" / f"{channel}.jsonl", records))
    written.append(_write(folder / "heldout.jsonl", map(_heldout_record, range(HELDOUT_ITEMS))))
    return written


def _heldout_record(index: int) -> dict[str, object]:
    (item,) = heldout(1, first=index)
    return {
        "id": item.id,
        "messages": [{"role": m.role, "content": m.content} for m in item.messages],
        "metadata": {"origin": "synthetic"},
        "gold": dict(item.gold),
    }


def _record(conversation: LabelledConversation, channel: str) -> dict[str, object]:
    return {
        "id": f"{channel}-{conversation.seed}",
        "messages": [{"role": role, "content": said} for role, said in conversation.messages],
        "metadata": {"origin": "synthetic", "channel": channel},
        "gold": gold_of(conversation),
    }


def _write(path: Path, records: Iterable[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")
    return path
