from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.output.querying import _in_memory, connect
from pipeline.output.runs import RunNotFoundError
from pipeline.output.tables import DECISIONS
from tests.pipeline.diff.cases import compared, two_runs
from tests.pipeline.output.test_writing import error
from tests.pipeline.synthetic import STARTED, decision, write_run


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two complete runs, one failed and one unfinished."""
    out = str(tmp_path_factory.mktemp("out"))
    one = [decision("c1", "topic", {"billing": 0.75, "symptoms": 0.25})]
    two = [*one, decision("c2", "topic", {"billing": 0.25, "symptoms": 0.75})]
    write_run(out, one, run_id="old", errors=[error("s", 1)])
    later = STARTED + timedelta(hours=1)
    write_run(out, two, run_id="new", build="b's", started_at=later, parts=2)
    latest = STARTED + timedelta(hours=2)
    write_run(out, two, run_id="open", started_at=latest, finish=False)
    with pytest.raises(LookupError):
        write_run(out, two, run_id="bad", errors=[error("s", 1)], max_error_rate=0)
    return out


def test_views_hold_complete_runs_with_their_partition_keys(output: str) -> None:
    database = connect(output)
    found = database.sql(
        "SELECT run_id, build, run_date, count(*) FROM decisions GROUP BY ALL ORDER BY run_id"
    ).fetchall()
    assert found == [("new", "b's", date(2026, 1, 2), 2), ("old", "baseline", date(2026, 1, 2), 1)]
    assert database.sql("SELECT run_id FROM runs ORDER BY 1").fetchall() == [("new",), ("old",)]
    assert database.sql("SELECT count(*) FROM option_probabilities").fetchall() == [(6,)]
    assert database.sql("SELECT count(*) FROM errors").fetchall() == [(1,)]


def test_latest_views_hold_the_newest_complete_run(output: str) -> None:
    database = connect(output)
    assert database.sql("SELECT DISTINCT run_id FROM latest_decisions").fetchall() == [("new",)]
    assert database.sql("SELECT count(*) FROM latest_errors").fetchall() == [(0,)]


def test_remote_tables_read_the_same(output: str) -> None:
    files = [f for f in map(str, Path(output).glob("decisions/*/*/*/*.parquet")) if "=new" in f]
    rows = _in_memory(DECISIONS, files)
    names = [*DECISIONS.schema.names, "run_date", "build", "run_id"]
    assert rows.column_names == names
    assert rows["build"].to_pylist() == ["b's", "b's"]
    assert rows.num_rows == sum(pq.read_metadata(f).num_rows for f in files)


def test_files_of_an_earlier_release_lack_a_column(tmp_path: Path) -> None:
    for run_id in ("r1", "r2"):
        rows = [decision("c1", "q", {"a": 0.75, "b": 0.25}, conversation_group="g")]
        write_run(str(tmp_path), rows, run_id=run_id)
    files = sorted(tmp_path.glob("decisions/*/*/*/*.parquet"))
    table = pq.read_table(files[1], partitioning=None)
    pq.write_table(table.drop_columns("conversation_group"), files[1])
    rows = connect(str(tmp_path)).sql("SELECT conversation_group FROM decisions ORDER BY run_id")
    assert rows.fetchall() == [("g",), (None,)]
    held = _in_memory(DECISIONS, [str(file) for file in files])
    assert held["conversation_group"].to_pylist() == ["g", None]
    assert held.column_names[:-3] == DECISIONS.schema.names


def test_an_empty_folder_has_empty_views(tmp_path: Path) -> None:
    database = connect(str(tmp_path))
    for view in ("decisions", "latest_decisions", "runs", "diffs", "diff_summary"):
        assert database.sql(f"SELECT count(*) FROM {view}").fetchall() == [(0,)]


def test_the_command_answers_as_table_or_json(output: str) -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["query", "--output", output])
    assert shown.exit_code == 0
    assert "symptoms" in shown.output
    sql = "SELECT decision, probability FROM latest_decisions ORDER BY 1"
    told = runner.invoke(app, ["query", sql, "--output", output, "--json"])
    assert [json.loads(line) for line in told.output.splitlines()] == [
        {"decision": "billing", "probability": 0.75},
        {"decision": "symptoms", "probability": 0.75},
    ]


def test_wrong_sql_is_wrong_usage(output: str) -> None:
    result = CliRunner().invoke(app, ["query", "SELECT nothing FROM decisions", "--output", output])
    assert result.exit_code == 2
    assert "nothing" in result.output


def test_a_folder_without_runs_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["query", "--output", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, RunNotFoundError)
    assert "nowhere: holds no complete run" in str(result.exception)


def test_a_comparison_without_its_record_is_not_shown(tmp_path: Path) -> None:
    out = str(tmp_path)
    rows = [decision("c1", "topic", {"billing": 0.75, "symptoms": 0.25})]
    compared(out, two_runs(out, rows, rows))
    count = "SELECT (SELECT count(*) FROM diffs), (SELECT count(*) > 0 FROM diff_summary)"
    assert connect(out).sql(count).fetchall() == [(1, True)]
    (record,) = tmp_path.glob("_comparisons/*.json")
    record.unlink()
    assert connect(out).sql(count).fetchall() == [(0, False)]
