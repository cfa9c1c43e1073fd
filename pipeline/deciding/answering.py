"""Cases of one part -> its rows, by way of an engine. Knows nothing of Beam.

Every case comes out exactly once: as decisions, or as one error row. A read the engine refuses
costs its own case; a dead engine costs the whole part (`EngineDeadError` passes through).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

from engine.reads import EngineCounters, Read, ReadResult
from pipeline.deciding import rows
from pipeline.deciding.planning import Case, PlannedPart, PlanSettings, case_reads
from pipeline.deciding.progress import Progress, report
from pipeline.input.conversations import Rejected
from rubrics.canvas import Canvas
from rubrics.compiler import CompiledRubric
from rubrics.scoring import score


class CountedEngine(Protocol):
    """What deciding needs of an engine; a proxy in another process offers the same."""

    def read_counted(self, reads: Sequence[Read]) -> tuple[list[ReadResult], EngineCounters]: ...

    def fingerprint(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class DecidedPart:
    """All rows of a part, and what they cost.

    Attributes:
        tables: rows by table name, for every table of a part.
        counts: the planned part's, plus decided_cases, failed_cases, refused_cases,
            expected_decisions, decisions, options, errors.
        engine: counters spent, by name of `EngineCounters`.
    """

    part: str
    digest: str
    tables: Mapping[str, list[dict[str, Any]]] = field(repr=False)
    counts: Mapping[str, int]
    engine: Mapping[str, float]
    engine_fingerprint: Mapping[str, Any] = field(repr=False)


@dataclass
class _Open:
    """A case being decided: answers so far, rows so far, or why it failed."""

    case: Case
    compiled: CompiledRubric
    answers: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)
    failure: Rejected | None = None


@dataclass(frozen=True)
class Decider:
    """Decides parts with one engine.

    Attributes:
        rubrics: compiled rubrics by id.
        reads_per_call: reads handed to the engine at once; fixed, so that batches, and with
            them roundings, are the same in every run of the same part.
        vocab_size: ids noise is drawn from.
        clock: tells the time of a decision.
    """

    rubrics: Mapping[str, CompiledRubric]
    settings: PlanSettings
    vocab_size: int
    reads_per_call: int
    clock: Callable[[], datetime]

    def decide(self, part: PlannedPart, engine: CountedEngine) -> DecidedPart:
        """All rows of `part`."""
        cases = [_Open(case, self.rubrics[case.rubric_id]) for case in part.cases]
        spent = EngineCounters()
        # Nothing computed for another part may move this one's roundings.
        group = uuid.uuid4().hex
        stages = max((len(c.compiled.stages) for c in cases), default=0)
        for stage in range(stages):
            spent += self._decide_stage(part.part, cases, stage, engine, group)
        rejected = [*part.rejected, *(c.failure for c in cases if c.failure)]
        decided = [c for c in cases if c.failure is None]
        for case in decided:
            asked = {row["question_id"] for row in case.decisions}
            if asked != {q.id for q in case.compiled.rubric.questions}:
                raise AssertionError(f"part {part.part}: a case came out without all its questions")
        tables = {
            "decisions": [row for c in decided for row in c.decisions],
            "option_probabilities": [row for c in decided for row in c.options],
            "errors": [asdict(r) for r in rejected],
        }
        counts = dict(part.counts) | {
            "decided_cases": len(decided),
            "failed_cases": sum(r.rubric_id is not None for r in rejected),
            "refused_cases": len(cases) - len(decided),
            "expected_decisions": sum(len(c.compiled.rubric.questions) for c in decided),
            "decisions": len(tables["decisions"]),
            "options": len(tables["option_probabilities"]),
            "errors": len(tables["errors"]),
        }
        fingerprint = engine.fingerprint() if cases else {}
        return DecidedPart(part.part, part.digest, tables, counts, asdict(spent), fingerprint)

    def _decide_stage(
        self, part: str, cases: list[_Open], stage: int, engine: CountedEngine, group: str
    ) -> EngineCounters:
        """Ask the questions of one stage in every case that still stands."""
        asked: list[tuple[_Open, tuple[Canvas, ...], tuple[int, ...]]] = []
        reads: list[Read] = []
        for index, case in enumerate(cases):
            if case.failure or stage >= len(case.compiled.stages):
                continue
            canvases = self._canvases_to_ask(case, stage)
            if not canvases:
                continue
            prompt_ids = case.case.prompt_ids
            if case.answers:
                prompt_ids += case.compiled.answer_ids(case.answers)
            asked.append((case, canvases, prompt_ids))
            reads += case_reads(
                case.case, index, canvases, prompt_ids, self.settings, self.vocab_size, group
            )
        results, spent = self._read(part, reads, engine)
        answered = iter(results)
        for case, canvases, prompt_ids in asked:
            for canvas in canvases:
                draws = [next(answered) for _ in range(self.settings.samples)]
                if case.failure is None:
                    self._take(case, canvas, prompt_ids, draws)
        return spent

    def _canvases_to_ask(self, case: _Open, stage: int) -> tuple[Canvas, ...]:
        """Canvases of the stage with a question to ask; the others' questions are skipped."""
        found = []
        for canvas in case.compiled.stages[stage]:
            for question_id in canvas.question_ids:
                question = case.compiled.rubric.question(question_id)
                because = case.compiled.skipped_because(question_id, case.answers)
                if because is not None:
                    case.skipped[question_id] = because
                    case.decisions.append(
                        rows.skipped_row(case.case, case.compiled, question, because)
                    )
            if any(q not in case.skipped for q in canvas.question_ids):
                found.append(canvas)
        return tuple(found)

    def _read(
        self, part: str, reads: list[Read], engine: CountedEngine
    ) -> tuple[list[ReadResult], EngineCounters]:
        """One result per read, in order, and what they cost."""
        results: list[ReadResult] = []
        spent = EngineCounters()
        for start in range(0, len(reads), self.reads_per_call):
            call = reads[start : start + self.reads_per_call]
            answers, cost = engine.read_counted(call)
            if [a.read_id for a in answers] != [r.read_id for r in call]:
                raise AssertionError(f"part {part}: the engine's results do not match the reads")
            results += answers
            spent += cost
            report(Progress(reads=len(call), steps=cost.steps))
        return results, spent

    def _take(
        self,
        case: _Open,
        canvas: Canvas,
        prompt_ids: tuple[int, ...],
        draws: Sequence[ReadResult],
    ) -> None:
        """Turn the draws of one canvas into rows, or into the case's failure."""
        problem = rows.read_problem(canvas, draws)
        if problem is not None:
            code, _, message = problem.partition(": ")
            case.failure = Rejected(
                case.case.source,
                case.case.record_index,
                case.case.conversation_id,
                case.case.rubric_id,
                "decide",
                code,
                message,
            )
            return
        receipt = rows.receipt(case.case, canvas, prompt_ids, draws, self.settings, self.clock())
        for slot in canvas.slots:
            if slot.question_id in case.skipped:
                continue
            question = case.compiled.rubric.question(slot.question_id)
            scored = score(question, slot, [draw.logprobs[slot.position] for draw in draws])
            case.answers[question.id] = scored.decision_index
            decision, options = rows.decided_rows(
                case.case, case.compiled, question, slot, scored, receipt
            )
            case.decisions.append(decision)
            case.options += options
