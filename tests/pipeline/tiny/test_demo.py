"""The shipped demonstration data is what the corpus says today."""

import json
from pathlib import Path
from typing import Any

import configs
from pipeline.tiny.demo import HELDOUT_ITEMS, write_demo_data
from rubrics.model import load_rubric

DEMO = Path(configs.__file__).parent / "demo"


def test_shipped_files_are_what_the_corpus_writes(tmp_path: Path) -> None:
    for written in write_demo_data(tmp_path):
        shipped = DEMO / written.relative_to(tmp_path)
        assert shipped.read_bytes() == written.read_bytes()


def test_every_conversation_has_gold_that_the_rubric_knows() -> None:
    rubric = load_rubric("triage")
    shards = sorted((DEMO / "conversations").glob("*.jsonl"))
    assert len(shards) == 3
    records = [_records(shard) for shard in (*shards, DEMO / "heldout.jsonl")]
    assert sum(map(len, records[:3])) == 40
    assert len(records[3]) == HELDOUT_ITEMS
    ids = [record["id"] for shard in records for record in shard]
    assert len(ids) == len(set(ids))
    for record in (record for shard in records for record in shard):
        assert record["messages"][-1]["role"] == "user"
        for question in rubric.questions:
            assert question.find(record["gold"][question.id]) is not None


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
