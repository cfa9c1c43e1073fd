"""Every view and every question of the README, on DuckDB over files the pipeline wrote, against
the same answer worked out with pandas from the rows in memory."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dataflow.bigquery.statements import VIEWS
from rubrics.model import load_rubric
from tests.dataflow.answers import QUESTION_ANSWERS, VIEW_ANSWERS
from tests.dataflow.sample_output import History, write_history
from tests.dataflow.warehouse import Warehouse
from tests.pipeline.sample_jobs import CHAINED, conversation, decide, make_job, write_shard

README = Path(__file__).parents[2] / "dataflow/bigquery/README.md"
QUESTIONS = re.findall(r"^([A-Z][^\n]*\??\)?)\n```sql\n(.*?)```", README.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return write_history(str(tmp_path_factory.mktemp("history")))


@pytest.fixture(scope="module")
def warehouse(history: History) -> Warehouse:
    return Warehouse(history.output)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame, *, ordered: bool) -> None:
    assert len(expected), "the expected answer has no rows: the test would show nothing"
    assert set(found.columns) == set(expected.columns)
    columns = sorted(expected.columns)
    left, right = (
        [tuple(map(plain, row)) for row in side[columns].itertuples(index=False)]
        for side in (found, expected)
    )
    if not ordered:
        left, right = sorted(left, key=order), sorted(right, key=order)
    assert len(left) == len(right)
    for row, wanted in zip(left, right, strict=True):
        for column, value, want in zip(columns, row, wanted, strict=True):
            same = pytest.approx(want, rel=1e-12) if isinstance(want, float) else want
            assert value == same, column


def plain(value: object) -> object:
    """What a value is, whatever library holds it: None, text, truth or a float."""
    if pd.isna(value):
        return None
    if isinstance(value, (pd.Timestamp, datetime.date)):
        return pd.Timestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    return float(value) if isinstance(value, (int, float, np.number)) else str(value)


def order(row: tuple[object, ...]) -> tuple[str, ...]:
    """Rows by their text, then by their numbers rounded: rounding errors do not change order."""
    return tuple(f"{value:.9f}" if isinstance(value, float) else str(value) for value in row)


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str, history: History, warehouse: Warehouse) -> None:
    assert_same(warehouse.rows(name), VIEW_ANSWERS[name](history), ordered=False)


@pytest.mark.parametrize(
    ("question", "answer"), list(zip(QUESTIONS, QUESTION_ANSWERS, strict=True))
)
def test_question(
    question: tuple[str, str],
    answer: Callable[[History], pd.DataFrame],
    history: History,
    warehouse: Warehouse,
) -> None:
    assert_same(warehouse.ask(question[1]), answer(history), ordered="ORDER BY" in question[1])


def test_views_over_what_the_pipeline_decided(tmp_path: Path) -> None:
    """Not drawn rows: a run of the pipeline itself, staged questions and errors included."""
    write_shard(tmp_path / "in/a.jsonl", [*(conversation(number) for number in range(9)), "broken"])
    run = decide(make_job(tmp_path, [load_rubric("triage"), CHAINED]))
    warehouse = Warehouse(run.output)
    counts = {name: len(warehouse.rows(name)) for name in VIEWS}
    assert counts["latest_runs"] == counts["throughput"] == counts["error_rates"] == 1
    assert counts["latest_decisions"] == run.row["decisions"]
    mix = warehouse.rows("answer_mix")
    skipped = warehouse.ask("SELECT COUNTIF(skipped_because IS NOT NULL) AS n FROM `d.decisions`")
    assert mix.answers.sum() + skipped.n[0] == run.row["decisions"]
    assert skipped.n[0] > 0


def test_views_show_complete_runs_only(warehouse: Warehouse) -> None:
    everything = {row.run_id for row in warehouse.rows("decisions").itertuples()}
    shown = {row.run_id for row in warehouse.rows("latest_decisions").itertuples()}
    assert everything - shown == {"replaced", "failed", "unfinished"}
