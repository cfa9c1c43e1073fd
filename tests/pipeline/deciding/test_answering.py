from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.builds import Build
from engine.checkpoints import resolve
from engine.reads import EngineCounters, EngineDeadError, Read, ReadResult
from pipeline.deciding.answering import DecidedPart, Decider
from pipeline.deciding.inference import SharedEngine
from pipeline.deciding.planning import PlannedPart, PlanSettings, plan_part
from pipeline.deciding.spec import compile_rubrics
from pipeline.input.conversations import Conversation, Message
from rubrics.model import load_rubric
from tests.pipeline.sample_jobs import CHAINED, fake_engine, noon

SETTINGS = PlanSettings(samples=1, seed=42, on_too_long="reject", max_model_len=4096)
BUILD = Build(name="b", single_pass_reads=True)
RUBRICS = compile_rubrics((load_rubric("triage"), CHAINED), resolve("tiny"), BUILD, "lines")


class Answering(SharedEngine):
    """A fake engine whose results pass through `change` on their way out."""

    def __init__(self, change: Callable[[Read, ReadResult], ReadResult]) -> None:
        super().__init__(lambda: fake_engine(BUILD))
        self.change = change
        self.calls: list[int] = []

    def read_counted(self, reads: Sequence[Read]) -> tuple[list[ReadResult], EngineCounters]:
        self.calls.append(len(reads))
        results, cost = super().read_counted(reads)
        return [self.change(a, b) for a, b in zip(reads, results, strict=True)], cost


def unchanged(read: Read, result: ReadResult) -> ReadResult:
    return result


def part(count: int, rubric: str = "triage", settings: PlanSettings = SETTINGS) -> PlannedPart:
    records = [
        Conversation(
            f"c{i}",
            (Message("user", f"My head hurts since {i} days."),),
            rubrics=(rubric,),
            source="s",
            record_index=i,
            group=f"g{i // 2}",
            gold={"topic": "symptoms"} if rubric == "triage" else {},
        )
        for i in range(count)
    ]
    return plan_part("p", "d", records, RUBRICS, settings)


def decide(
    planned: PlannedPart, engine: SharedEngine | None = None, settings: PlanSettings = SETTINGS
) -> DecidedPart:
    decider = Decider(RUBRICS, settings, 4096, reads_per_call=8, clock=noon)
    return decider.decide(planned, engine or Answering(unchanged))


def test_every_question_of_every_case_is_decided_and_sums_to_one() -> None:
    decided = decide(part(5))
    decisions, options = decided.tables["decisions"], decided.tables["option_probabilities"]
    assert len(decisions) == 5 * 4
    groups: dict[tuple[str, str], list[float]] = {}
    for row in options:
        groups.setdefault((row["conversation_id"], row["question_id"]), []).append(
            row["probability"]
        )
    assert len(groups) == 20
    assert all(math.fsum(g) == pytest.approx(1, abs=1e-12) for g in groups.values())
    assert sum(row["is_decision"] for row in options) == 20
    for row in decisions:
        assert row["correct"] == (None if row["gold"] is None else row["gold"] == row["decision"])
        assert row["single_pass"] is True
        assert row["decided_at"] == noon()
        assert row["conversation_group"] == f"g{int(row['conversation_id'][1:]) // 2}"
    assert decided.engine["reads"] == 5
    assert decided.engine["single_pass_reads"] == 5


def test_calls_have_a_fixed_size_and_rows_do_not_depend_on_it() -> None:
    engine = Answering(unchanged)
    decided = decide(part(19), engine)
    assert engine.calls == [8, 8, 3]
    alone = [decide(replace(part(19), cases=(case,))) for case in part(19).cases]
    rows = [r for d in alone for r in d.tables["option_probabilities"]]
    assert rows == decided.tables["option_probabilities"]


def test_draws_are_averaged_and_counted() -> None:
    settings = replace(SETTINGS, samples=4)
    decided = decide(part(2, settings=settings), settings=settings)
    for row in decided.tables["decisions"]:
        assert row["draws"] == 4
        assert row["standard_error"] >= 0
        assert 0 <= row["agreement"] <= 1
    assert decided.engine["reads"] == 8


def test_later_stages_follow_the_answers_and_skips_have_a_reason() -> None:
    decided = decide(part(60, "chained"))
    rows = {(r["conversation_id"], r["question_id"]): r for r in decided.tables["decisions"]}
    assert len(rows) == 60 * 4
    seen = set()
    for i in range(60):
        pain, where, how_bad, calm = (
            rows[f"c{i}", q] for q in ("pain", "where", "how_bad", "calm")
        )
        assert pain["skipped_because"] is None
        assert calm["skipped_because"] is None
        assert where["skipped_because"] == (None if pain["decision"] == "yes" else "pain")
        asked = where["decision"] in ("head", "chest")
        assert how_bad["skipped_because"] == (None if asked else "where")
        assert calm["prompt_tokens"] > pain["prompt_tokens"]
        seen.add((where["skipped_because"], how_bad["skipped_because"]))
    assert seen == {(None, None), (None, "where"), ("pain", "where")}
    skipped = {k for k, r in rows.items() if r["skipped_because"]}
    assert all(rows[k]["decision"] is None and rows[k]["probability"] is None for k in skipped)
    with_options = {
        (r["conversation_id"], r["question_id"]) for r in decided.tables["option_probabilities"]
    }
    assert with_options == rows.keys() - skipped


def test_a_refused_read_costs_its_own_case_only() -> None:
    def refuse(read: Read, result: ReadResult) -> ReadResult:
        if read.read_id.startswith("2/"):
            return replace(result, logprobs={}, error="bad_slots: made up")
        return result

    decided = decide(part(5), Answering(refuse))
    (error,) = decided.tables["errors"]
    assert (error["conversation_id"], error["rubric_id"]) == ("c2", "triage")
    assert (error["stage"], error["code"], error["message"]) == ("decide", "bad_slots", "made up")
    assert {r["conversation_id"] for r in decided.tables["decisions"]} == {"c0", "c1", "c3", "c4"}
    assert decided.counts["refused_cases"] == decided.counts["failed_cases"] == 1


def test_a_later_stage_that_is_refused_takes_the_case_back() -> None:
    def refuse(read: Read, result: ReadResult) -> ReadResult:
        long = len(read.prompt_ids) > min(len(c.prompt_ids) for c in planned.cases) + 2
        return replace(result, logprobs={}, error="x: y") if long else result

    planned = part(6, "chained")
    decided = decide(planned, Answering(refuse))
    assert decided.tables["decisions"] == decided.tables["option_probabilities"] == []
    assert len(decided.tables["errors"]) == 6


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_probability_that_is_no_number_is_an_error_row(bad: float | None) -> None:
    def spoil(read: Read, result: ReadResult) -> ReadResult:
        if read.read_id != "1/0/0":
            return result
        first = RUBRICS["triage"].canvases[0].slots[0]
        slot, label = first.position, first.label_ids[-1]
        found = result.logprobs[slot]
        changed = {k: v for k, v in found.items() if k != label}
        if bad is not None:
            changed[label] = bad
        return replace(result, logprobs={**result.logprobs, slot: changed})

    decided = decide(part(3), Answering(spoil))
    (error,) = decided.tables["errors"]
    assert (error["conversation_id"], error["code"]) == ("c1", "no_probability")


def test_a_dead_engine_fails_the_part() -> None:
    engine = fake_engine(BUILD)
    engine.kill()
    with pytest.raises(EngineDeadError):
        decide(part(3), SharedEngine(lambda: engine))


def test_an_engine_that_mixes_up_results_is_noticed() -> None:
    class Swapping(SharedEngine):
        def read_counted(self, reads: Sequence[Read]) -> tuple[list[ReadResult], EngineCounters]:
            results, cost = super().read_counted(reads)
            return results[::-1], cost

    with pytest.raises(AssertionError, match="do not match the reads"):
        decide(part(3), Swapping(lambda: fake_engine(BUILD)))
