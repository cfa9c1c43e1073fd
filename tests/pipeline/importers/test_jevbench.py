"""JevBench items, hand-written in the benchmark's form, and its metrics on runs made by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.importers import jevbench
from pipeline.importers.folder import write_folder
from pipeline.importers.jevbench import QUESTION_ID, import_items
from pipeline.importers.jevbench_metrics import Item, load_items, measure
from pipeline.input.conversations import Conversation
from pipeline.input.records import parse_record
from pipeline.output.runs import find_run
from pipeline.yaml_files import ConfigError
from tests.pipeline.command_line import onepass
from tests.pipeline.synthetic import decision, write_run

Capture = pytest.CaptureFixture[str]

INTENT = {
    "type": "choice",
    "instructions": "What does the sender want?",
    "criteria": {"refund": "Money back", "repair": "A working product"},
}


def item(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "family": "intent",
        "topic": "shop",
        "state": "The kettle leaks; please send me a new one.",
        "question": INTENT,
        "labels": ["refund", "repair"],
        "expected": "repair",
        "split": "standard",
        "group": f"group-{name}",
        "provenance": {"license": "MIT", "source": "hand-written", "label_basis": "plain"},
        **changes,
    }


FACT = {"question": {"type": "noul", "instructions": "Is it broken?"}, "labels": ["no", "yes"]}
LEVEL = {
    "question": {
        "type": "score",
        "instructions": "How angry is the sender?",
        "criteria": ["Calm", "Annoyed", "Angry"],
    },
    "labels": ["0", "1", "2"],
}

ITEMS = [
    item("i1", group="pair"),
    item("i2", group="pair", state={"subject": "Kettle", "text": "Undicht, ça fuit."}),
    item("f1", family="fact", **FACT, expected="yes"),
    item("o1", family="ordinal", **LEVEL, expected="0"),
    item("o2", family="ordinal", **LEVEL, expected="2"),
    item(
        "p1",
        family="probability",
        provenance={"license": "CC-BY-4.0", "gold_probs": {"refund": 0.25, "repair": 0.75}},
    ),
]


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(items: list[dict[str, Any]], name: str = "easy.jsonl") -> Path:
    path = Path(name)
    path.write_text("".join(json.dumps(i) + "\n" for i in items), encoding="utf-8")
    return path


class TestImport:
    def test_an_item_is_a_conversation_with_gold(self) -> None:
        found = import_items([write(ITEMS)])
        record = parse_record(found.shards["easy"][1], "easy.jsonl", 1)  # type: ignore[arg-type]
        assert isinstance(record, Conversation)
        assert record.messages[0].content == '{"subject": "Kettle", "text": "Undicht, ça fuit."}'
        assert record.gold == {"answer": "repair"}
        assert record.rubrics == ("intent-01",)
        assert record.metadata == {
            "family": "intent",
            "topic": "shop",
            "split": "standard",
            "license": "MIT",
        }
        assert record.group == "pair"

    def test_the_options_are_the_item_s_own(self) -> None:
        rubrics = {rubric.id: rubric for rubric in import_items([write(ITEMS)]).rubrics}
        shown = {
            rubric_id: [(o.name, o.description) for o in rubric.question(QUESTION_ID).options]
            for rubric_id, rubric in rubrics.items()
        }
        assert shown == {
            "intent-01": [("refund", "Money back"), ("repair", "A working product")],
            "fact-01": [("yes", None), ("no", None)],
            "ordinal-01": [("0", "Calm"), ("1", "Annoyed"), ("2", "Angry")],
            "probability-01": [("refund", "Money back"), ("repair", "A working product")],
        }

    def test_described_answers_of_yes_and_no(self) -> None:
        question = {**FACT["question"], "criteria": {"true": "Leaks", "false": "Tight"}}
        described = item("f2", labels=["no", "yes"], question=question, expected="no")
        (rubric,) = import_items([write([described])]).rubrics
        options = rubric.questions[0].options
        assert [(o.name, o.description) for o in options] == [("yes", "Leaks"), ("no", "Tight")]

    def test_files_are_checked_against_the_published_ones(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(ITEMS)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        assert import_items([path]).notes == [
            f"easy.jsonl: not a published file of JevBench (SHA-256 {sha256})"
        ]
        monkeypatch.setitem(jevbench.PUBLISHED, "easy.jsonl", sha256)
        assert import_items([path]).notes == []

    def test_a_folder_stands_for_its_files(self) -> None:
        Path("public").mkdir()
        write(ITEMS[:2], "public/easy.jsonl")
        write(ITEMS[2:], "public/hard.jsonl")
        found = import_items([Path("public")])
        assert {name: len(records) for name, records in found.shards.items()} == {
            "easy": 2,
            "hard": 4,
        }
        assert found.questions == 6

    def test_every_bad_item_is_named_by_line(self) -> None:
        bad = [
            item("a", expected="sell"),
            item("b", labels=["refund", "repair", "sell"]),
            item("c", question="?"),
            item("d", labels="refund"),
            item("e", state=""),
            item("f", **{**LEVEL, "labels": ["0", "1"]}, expected="0"),
            {"id": "g"},
            item("h", group=["pair"]),
        ]
        with pytest.raises(ConfigError) as error:
            import_items([write([*ITEMS, *bad])])
        reasons = dict(problem.split(": ", 1) for problem in error.value.problems)
        assert list(reasons) == [f"easy.jsonl:{line}" for line in range(7, 14 + 1) if line != 8]
        assert reasons["easy.jsonl:7"] == "expected 'sell' is none of refund, repair"
        assert reasons["easy.jsonl:9"] == "a question must be an object with type and instructions"
        assert reasons["easy.jsonl:12"] == "has 2 labels and 3 criteria"
        assert reasons["easy.jsonl:13"] == "family must be a string"
        assert reasons["easy.jsonl:14"] == "group must be a string"

    def test_an_item_without_a_group_stands_alone(self) -> None:
        (record,) = import_items([write([item("i", group=None)])]).shards["easy"]
        assert record["group"] is None

    def test_no_files(self) -> None:
        Path("empty").mkdir()
        with pytest.raises(ConfigError, match=r"empty: holds no \.jsonl file"):
            import_items([Path("empty")])
        with pytest.raises(ConfigError, match=r"gone\.jsonl: cannot be read: No such file"):
            import_items([Path("gone.jsonl")])


def answered(name: str, gold: str = "a", **changes: Any) -> Item:
    values: dict[str, Any] = {"family": "intent", "group": name, "probabilities": {}, **changes}
    return Item(id=name, gold=gold, **values)


class TestMetrics:
    def test_worked_by_hand(self) -> None:
        items = [
            answered("1", probabilities={"a": 0.9, "b": 0.1}),
            answered("2", probabilities={"a": 0.35, "b": 0.65}),
            answered("3", probabilities={"a": 0.7, "b": 0.3}, gold_probabilities={"a": 1.0}),
            answered("4"),
        ]
        overall, family = measure(items)
        assert (overall.family, family.family) == ("*", "intent")
        assert (overall.items, overall.undecided) == (4, 1)
        assert overall.accuracy == pytest.approx(2 / 3)
        assert overall.brier == pytest.approx((2 * 0.01 + 2 * 0.65**2 + 2 * 0.09) / 3)
        # Bins 0.9, 0.6 and 0.7 hold one item each: gaps 0.1, 0.65 and 0.3.
        assert overall.ece == pytest.approx((0.1 + 0.65 + 0.3) / 3)
        assert overall.total_variation == pytest.approx(0.3)
        assert overall.valid == overall.strictly_valid == 1.0
        assert overall.ordinal_error is None
        assert overall.paraphrase_consistency is None

    def test_equal_options_are_decided_by_name(self) -> None:
        assert answered("1", probabilities={"b": 0.4, "a": 0.4, "c": 0.2}).decision == "a"

    def test_sums_decide_validity(self) -> None:
        sums = (1.0, 1.0005, 1.01, 0.9, 1.03)
        items = [answered(str(s), probabilities={"a": s - 0.4, "b": 0.4}) for s in sums]
        overall = measure(items)[0]
        assert overall.valid == pytest.approx(3 / 5)
        assert overall.strictly_valid == pytest.approx(2 / 5)

    def test_distance_in_levels(self) -> None:
        levels = ("0", "1", "2")
        items = [
            answered("1", "0", levels=levels, probabilities={"0": 0.1, "1": 0.1, "2": 0.8}),
            answered("2", "1", levels=levels, probabilities={"0": 0.1, "1": 0.8, "2": 0.1}),
        ]
        assert measure(items)[0].ordinal_error == pytest.approx(1.0)

    def test_pairs_agree_or_not(self) -> None:
        yes, no = {"a": 0.9, "b": 0.1}, {"a": 0.1, "b": 0.9}
        items = [
            answered("1", group="p", probabilities=yes),
            answered("2", group="p", probabilities=yes),
            answered("3", group="q", probabilities=yes),
            answered("4", group="q", probabilities=no),
            answered("5", group="scenario", probabilities=yes),
            answered("6", "b", group="scenario", probabilities=yes),
        ]
        assert measure(items)[0].paraphrase_consistency == pytest.approx(0.5)

    def test_the_interval_resamples_whole_groups(self) -> None:
        right, wrong = {"a": 0.9, "b": 0.1}, {"a": 0.1, "b": 0.9}
        answers = [right] * 50 + [wrong] * 50
        alone = [answered(str(n), probabilities=p) for n, p in enumerate(answers)]
        tens = [
            answered(str(n), group=str(n // 10), probabilities=p) for n, p in enumerate(answers)
        ]
        by_item, by_group = measure(alone)[0], measure(tens)[0]
        assert by_item.accuracy_low == pytest.approx(0.40, abs=0.02)
        assert by_item.accuracy_high == pytest.approx(0.60, abs=0.02)
        assert by_group.accuracy_low == pytest.approx(0.2, abs=0.1)
        assert by_group.accuracy_high == pytest.approx(0.8, abs=0.1)

    def test_nothing_decided_is_nothing_measured(self) -> None:
        overall = measure([answered("1")])[0]
        assert (overall.items, overall.undecided) == (1, 1)
        assert overall.accuracy is overall.brier is overall.ece is overall.valid is None


class TestFromARun:
    @pytest.fixture
    def folder(self) -> Path:
        write_folder(import_items([write(ITEMS)]), Path("set"), "single_pass")
        answers = {
            "i1": {"refund": 0.2, "repair": 0.8},
            "i2": {"refund": 0.6, "repair": 0.4},
            "f1": {"yes": 0.9, "no": 0.1},
            "o2": {"0": 0.1, "1": 0.7, "2": 0.2},
            "p1": {"refund": 0.5, "repair": 0.5},
        }
        decided = [
            decision(name, QUESTION_ID, p, question_type="score" if name[0] == "o" else "choice")
            for name, p in answers.items()
        ]
        write_run("out", decided, run_id="r1", parts=2)
        return Path("set")

    def test_items_meet_their_answers(self, folder: Path) -> None:
        found = {i.id: i for i in load_items(folder, find_run("out", "r1"))}
        assert found["i2"].probabilities == {"refund": 0.6, "repair": 0.4}
        assert (found["i2"].group, found["i2"].family, found["i2"].gold) == (
            "pair",
            "intent",
            "repair",
        )
        assert found["o1"].probabilities == {}
        assert found["o2"].levels == ("0", "1", "2")
        assert found["p1"].gold_probabilities == {"refund": 0.25, "repair": 0.75}

    def test_the_command_shows_every_family(self, folder: Path, capsys: Capture) -> None:
        assert onepass("import", "jevbench-metrics", "set", "--json") == 0
        said = json.loads(capsys.readouterr().out)
        found = {metrics["family"]: metrics for metrics in said}
        assert list(found) == ["*", "fact", "intent", "ordinal", "probability"]
        assert (found["*"]["items"], found["*"]["undecided"]) == (6, 1)
        assert found["intent"]["accuracy"] == 0.5
        assert found["intent"]["paraphrase_consistency"] == 0.0
        assert found["fact"]["accuracy"] == 1.0
        assert found["ordinal"]["ordinal_error"] == 1.0
        assert found["probability"]["total_variation"] == pytest.approx(0.25)
        assert found["probability"]["accuracy"] == 0.0  # a tie, and refund comes before repair
        assert onepass("import", "jevbench-metrics", "set") == 0
        assert "paraphrase_consistency" in capsys.readouterr().out

    def test_a_run_that_is_not_there(self, folder: Path, capsys: Capture) -> None:
        assert onepass("import", "jevbench-metrics", "set", "r9") == 2
        assert "no complete run called 'r9'; complete runs: r1" in capsys.readouterr().err
