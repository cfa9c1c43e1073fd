"""Cases of many questions, hand-written in the data set's form and the real ones."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from engine.builds import Build
from pipeline.importers.jevbench_240 import import_cases
from pipeline.input.conversations import Conversation
from pipeline.input.records import parse_record
from pipeline.input.shards import RawRecord, match_shards, read_records
from pipeline.jobs.config import load_job, load_rubrics
from pipeline.yaml_files import ConfigError
from tests.pipeline.command_line import onepass
from tests.pipeline.sample_jobs import decide, rows

Capture = pytest.CaptureFixture[str]

REPOSITORY = Path(__file__).parents[3]
CASES = REPOSITORY.parent / "shared/data/jevbench-240"

needs_cases = pytest.mark.skipif(
    not CASES.exists(), reason=f"the data set is not here: {CASES} does not exist"
)


def case(**changes: Any) -> dict[str, Any]:
    return {
        "id": "shop-1",
        "domain": "shop",
        "state": "The parcel never came.",
        "questions": {
            "late": {"type": "noul", "instructions": "Is it late?"},
            "tier": {
                "type": "choice",
                "instructions": "Which tier?",
                "criteria": {"gold": "Pays most", "free": "Pays nothing", "silver": "Pays"},
            },
            "anger": {"type": "score", "instructions": "How angry?", "criteria": ["Calm", "Angry"]},
        },
        "hierarchies": {"tier": [{"unpaid": ["free"], "paid": ["silver", "gold"]}]},
        **changes,
    }


def shuffled(found: dict[str, Any]) -> dict[str, Any]:
    """The same case with the options of its choices in another order."""
    copy: dict[str, Any] = json.loads(json.dumps(found))
    criteria = copy["questions"]["tier"]["criteria"]
    copy["questions"]["tier"]["criteria"] = dict(reversed(criteria.items()))
    return copy


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*cases: Any) -> Path:
    path = Path("cases.jsonl")
    path.write_text("".join(json.dumps(c) + "\n" for c in cases), encoding="utf-8")
    return path


@pytest.mark.usefixtures("workplace")
class TestHandWritten:
    def test_questions_become_a_rubric(self) -> None:
        (rubric,) = import_cases(write(case())).rubrics
        assert (rubric.id, rubric.version) == ("shop-01", "1")
        assert [(q.id, q.type, q.text) for q in rubric.questions] == [
            ("late", "noul", "Is it late?"),
            ("tier", "choice", "Which tier?"),
            ("anger", "score", "How angry?"),
        ]
        tier, anger = rubric.questions[1:]
        assert [(o.name, o.description) for o in tier.options] == [
            ("free", "Pays nothing"),
            ("silver", "Pays"),
            ("gold", "Pays most"),
        ]
        assert [option.name for option in anger.options] == ["Calm", "Angry"]

    def test_cases_that_ask_the_same_share_a_rubric(self) -> None:
        other = case(id="shop-3")
        del other["questions"]["late"]
        found = import_cases(write(case(), shuffled(case(id="shop-2")), other))
        named = [(r["id"], r["rubrics"]) for r in found.shards["shop"]]
        assert named == [
            ("shop-1", ["shop-01"]),
            ("shop-2", ["shop-01"]),
            ("shop-3", ["shop-02"]),
        ]
        assert (found.conversations, found.questions) == (3, 8)

    def test_domains_have_shards_and_rubrics_of_their_own(self) -> None:
        found = import_cases(write(case(), case(id="bank-1", domain="bank")))
        assert sorted(found.shards) == ["bank", "shop"]
        assert sorted(rubric.id for rubric in found.rubrics) == ["bank-01", "shop-01"]

    def test_every_bad_case_is_named_by_line(self) -> None:
        bad_type = case(questions={"q": {"type": "rank", "instructions": "?"}})
        one_option = case(
            questions={"q": {"type": "choice", "instructions": "?", "criteria": {"a": "b"}}}
        )
        no_text = case(questions={"q": {"type": "noul"}})
        path = write(case(), bad_type, one_option, no_text, case(state=5))
        with pytest.raises(ConfigError) as error:
            import_cases(path)
        assert [problem.split(": ")[0] for problem in error.value.problems] == [
            f"cases.jsonl:{line}" for line in (2, 3, 4, 5)
        ]
        assert "type 'rank' is none of noul, choice, score" in error.value.problems[0]
        assert "give 2 to 26" in error.value.problems[1]

    def test_lines_that_are_no_objects_are_named(self) -> None:
        Path("cases.jsonl").write_bytes(b'{"id"\n[]\n\xff\n')
        with pytest.raises(ConfigError) as error:
            import_cases(Path("cases.jsonl"))
        assert error.value.problems == [
            f"cases.jsonl:{line}: is no JSON object" for line in (1, 2, 3)
        ]

    def test_what_is_written_is_what_a_job_reads(self, capsys: Capture) -> None:
        Path("b.yaml").write_text("threads: 1\n", encoding="utf-8")
        arguments = ["--output", "set", "--build", "b.yaml"]
        assert onepass("import", "jevbench-240", str(write(case())), *arguments) == 0
        assert capsys.readouterr().out == (
            "1 conversations in 1 shards, 1 rubrics, 3 questions to decide.\n"
            "Next: onepass run set/job.yaml\n"
        )
        loaded = load_job("set/job.yaml")
        assert loaded.build == Build(name="b", threads=1)
        assert loaded.rubrics == tuple(import_cases(Path("cases.jsonl")).rubrics)
        (shard,) = match_shards(loaded.job.input)
        (record,) = read_records(shard)
        assert isinstance(record, RawRecord)
        found = parse_record(record.value, shard.name, record.index)
        assert isinstance(found, Conversation)
        assert (found.id, found.rubrics) == ("shop-1", ("shop-01",))
        assert found.messages[0].content == "The parcel never came."

    def test_importing_again_is_fine_and_over_something_else_is_not(self, capsys: Capture) -> None:
        arguments = ["import", "jevbench-240", "cases.jsonl", "--output", "set"]
        write(case())
        assert onepass(*arguments) == 0
        assert onepass(*arguments) == 0
        write(case(domain="bank"))
        assert onepass(*arguments) == 2
        complaint = capsys.readouterr().err
        assert "set: holds conversations/shop.jsonl; name an empty folder" in complaint

    def test_no_data_set(self, capsys: Capture) -> None:
        assert onepass("import", "jevbench-240", "nowhere") == 2
        assert "nowhere: holds no .jsonl file; name the folder or file" in capsys.readouterr().err


@needs_cases
class TestRealCases:
    def test_every_case_and_question_is_there(self, workplace: Path, capsys: Capture) -> None:
        assert onepass("import", "jevbench-240", str(CASES)) == 0
        said = capsys.readouterr().out
        assert "160 conversations in 8 shards, 43 rubrics, 1,561 questions" in said
        rubrics = load_rubrics(["out/jevbench-240/rubrics/*.yaml"])
        types = {rubric.id: Counter(q.type for q in rubric.questions) for rubric in rubrics}
        asked: Counter[str] = Counter()
        for shard in match_shards(["out/jevbench-240/conversations/*.jsonl"]):
            for record in read_records(shard):
                assert isinstance(record, RawRecord)
                found = parse_record(record.value, shard.name, record.index, frozenset(types))
                assert isinstance(found, Conversation)
                (rubric,) = found.rubrics or ()
                assert rubric.startswith(str(found.metadata["domain"]))
                assert 8 <= types[rubric].total() <= 12
                asked += types[rubric]
        assert asked == {"noul": 932, "choice": 425, "score": 204}

    def test_the_job_decides_every_question(self, workplace: Path) -> None:
        assert onepass("import", "jevbench-240", str(CASES)) == 0
        run = decide(load_job("jevbench-240"))
        assert run.status == "complete"
        counts = run.manifest["counts"]
        assert counts["cases"] == counts["decided_cases"] == 160
        assert (counts["decisions"], counts["errors"]) == (1561, 0)
        sums: dict[tuple[str, str], float] = defaultdict(float)
        for row in rows(run, "option_probabilities"):
            sums[row["conversation_id"], row["question_id"]] += row["probability"]
        assert len(sums) == 1561
        assert all(abs(total - 1) < 1e-9 for total in sums.values())

    def test_options_are_in_a_sensible_order(self) -> None:
        rubric = import_cases(CASES).rubrics[0]
        urgency = [option.name for option in rubric.question("urgency").options]
        assert urgency == ["low", "medium", "high", "critical"]
