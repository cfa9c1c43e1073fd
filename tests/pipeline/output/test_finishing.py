from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.output.finishing import COUNTS, error_rate, fingerprint_sha256, reconcile
from pipeline.output.runs import RunNotFoundError, find_run, list_runs
from pipeline.output.writing import PartMarker, TableFile
from tests.pipeline.output.test_writing import error
from tests.pipeline.synthetic import decision, write_run

GOOD = dict.fromkeys(COUNTS, 0) | {
    "records": 4,
    "conversations": 3,
    "rejected_records": 1,
    "cases": 3,
    "decided_cases": 2,
    "failed_cases": 1,
    "expected_decisions": 8,
    "decisions": 8,
    "options": 20,
    "errors": 2,
}


def marker(part: str = "p", **changes: int) -> PartMarker:
    rows = {"decisions": 8, "option_probabilities": 20, "errors": 2}
    files = tuple(TableFile(t, f"{t}/p", n, 10, "00") for t, n in rows.items())
    return PartMarker(part, "d", files, GOOD | changes, {})


def test_good_counts_reconcile() -> None:
    assert reconcile([marker()], {"p": 4}) == []


@pytest.mark.parametrize("count", [c for c in COUNTS if c not in ("refused_cases", "shard_errors")])
def test_any_count_that_is_off_by_one_is_noticed(count: str) -> None:
    assert reconcile([marker(**{count: GOOD[count] + 1})], {"p": 4}) != []


def test_lost_doubled_and_unknown_parts_are_named() -> None:
    problems = reconcile([marker("a"), marker("a"), marker("c")], {"a": 4, "b": 1})
    assert problems == [
        "part a was written twice",
        "part b was read but not written",
        "part c was written but not read",
    ]


def test_a_missing_table_file_is_noticed() -> None:
    short = replace(marker(), files=marker().files[:2])
    assert "rows in errors: -1 is not 2" in " ".join(reconcile([short], {"p": 4}))


def test_error_rate_counts_outcomes() -> None:
    assert error_rate(GOOD) == 0.5
    assert error_rate(dict.fromkeys(COUNTS, 0)) == 0.0


def test_too_many_errors_fail_the_run_but_keep_its_tables(tmp_path: Path) -> None:
    out = str(tmp_path)
    decided = [decision(f"c{i}", "q", {"a": 0.6, "b": 0.4}) for i in range(8)]
    errors = [error("s", i) for i in range(2)]
    ok = write_run(out, decided, run_id="ok", errors=errors, max_error_rate=0.2)
    assert ok.row["errors"] == 2
    with pytest.raises(RunNotFoundError, match=r"2 of 10 outcomes are errors \(20.00%\)"):
        write_run(out, decided, run_id="bad", errors=errors, max_error_rate=0.19)
    assert [r.run_id for r in list_runs(out)] == ["ok"]
    (bad,) = list_runs(out, status="failed")
    assert len(bad.files("errors")) == 1
    assert bad.files("runs") == []
    assert not list(tmp_path.glob("runs/*/*/run_id=bad/*"))


def test_the_fingerprint_hash_ignores_where_a_run_ran(tmp_path: Path) -> None:
    one = [decision("c", "q", {"a": 0.6, "b": 0.4})]
    facts = {"vllm_version": "0.32.0", "cpu_model": "A", "cpu_features": ["amx"], "threads": 4}
    a = write_run(str(tmp_path), one, run_id="a", engine_fingerprint=facts)
    b = write_run(str(tmp_path), one, run_id="b", engine_fingerprint=facts | {"cpu_model": "B"})
    c = write_run(str(tmp_path), one, run_id="c", engine_fingerprint=facts | {"vllm_version": "1"})
    assert (
        a.row["fingerprint_sha256"]
        == b.row["fingerprint_sha256"]
        == fingerprint_sha256(a.fingerprint)
    )
    assert a.row["fingerprint_sha256"] != c.row["fingerprint_sha256"]
    assert (a.row["cpu_features"], a.row["threads"], a.row["vllm_version"]) == ("amx", 4, "0.32.0")
    assert find_run(str(tmp_path), "a").row["model"] == "tiny"
