"""What a job would do, from its shards and the tokenizer alone: no model is loaded.

Cases and their reads are made by the code that makes them in a run, in the same parts and the
same order; only the engine is missing, and `pipeline.estimating.steps` counts its steps instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from engine.builds import Build
from engine.checkpoints import resolve
from engine.ordering import engine_order
from engine.reads import Read
from pipeline.deciding.inference import CALLS_PER_BATCH
from pipeline.deciding.planning import Case, PlanSettings, plan_part
from pipeline.deciding.spec import compile_rubrics
from pipeline.estimating.steps import StepCount, count_steps, shapes
from pipeline.input.conversations import Conversation, Rejected
from pipeline.input.parts import Place
from pipeline.input.reading import duplicate, parse_item
from pipeline.input.shards import RawRecord, Shard, match_shards, read_records
from pipeline.jobs.config import LoadedJob
from pipeline.output.finishing import error_rate
from rubrics.compiler import CompiledRubric

_BARS = 12


@dataclass
class Plan:
    """A job counted through.

    Attributes:
        job, build, model: their names.
        max_error_rate: what the job allows.
        shards, parts, records, conversations, cases, questions: how many; `questions` are those
            of all cases, so the decisions there will be if none is skipped.
        rejected: records and cases that become error rows, by code.
        prompt_lengths: tokens of every first prompt.
        widths: reads by canvas width.
        label_sets: the distinct sets of label ids that reads ask for.
        dropped_tokens, escaped_control_tokens: sums over cases.
        conditional_questions: questions that an answer may rule out; the counts include them.
        steps: as the build runs it; `other` with `single_pass_reads` the other way round.
    """

    job: str
    build: str
    model: str
    single_pass_reads: bool
    max_error_rate: float
    shards: int = 0
    parts: int = 0
    records: int = 0
    conversations: int = 0
    cases: int = 0
    questions: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    prompt_lengths: list[int] = field(default_factory=list, repr=False)
    widths: Counter[int] = field(default_factory=Counter)
    label_sets: set[tuple[int, ...]] = field(default_factory=set, repr=False)
    dropped_tokens: int = 0
    escaped_control_tokens: int = 0
    conditional_questions: int = 0
    steps: StepCount = field(default_factory=StepCount)
    other: StepCount = field(default_factory=StepCount)

    @property
    def error_rate(self) -> float:
        """Share of rejected records and cases; the run's errors, unless reads fail, too."""
        return error_rate({"errors": self.rejected.total(), "decided_cases": self.cases})

    def histogram(self) -> list[tuple[int, int, int]]:
        """(from, below, cases) of prompt lengths, in at most twelve equal steps."""
        if not self.prompt_lengths:
            return []
        low, high = min(self.prompt_lengths), max(self.prompt_lengths)
        step = max(1, -(-(high - low + 1) // _BARS))
        counts = Counter((length - low) // step for length in self.prompt_lengths)
        return [
            (low + bar * step, low + (bar + 1) * step, counts[bar])
            for bar in range(max(counts) + 1)
        ]

    def percentiles(self) -> dict[str, int]:
        """Prompt lengths: shortest, median, 95th percentile, longest."""
        lengths = sorted(self.prompt_lengths)
        if not lengths:
            return {}
        cuts = quantiles(lengths, n=20, method="inclusive") if len(lengths) > 1 else lengths * 19
        return {"shortest": lengths[0], "median": round(cuts[9]), "p95": round(cuts[18]),
                "longest": lengths[-1]}  # fmt: skip


def plan_job(loaded: LoadedJob) -> Plan:
    """Count a job through.

    Raises what a run would raise at its start: `CheckpointError`, `RubricError`, and
    `pipeline.input.shards.InputError` for input that is not there.
    """
    job, build = loaded.job, loaded.build
    checkpoint = resolve(build.model, weights=False)
    compiled = compile_rubrics(loaded.rubrics, checkpoint, build, job.dialect)
    settings = PlanSettings(job.samples, job.seed, job.on_too_long, build.max_model_len)
    plan = Plan(job.name, build.name, build.model, build.single_pass_reads, job.max_error_rate)
    plan.conditional_questions = sum(
        bool(question.ask_if) for rubric in loaded.rubrics for question in rubric.questions
    )
    shards = match_shards(job.input)
    plan.shards = len(shards)
    for records in _parts(shards, frozenset(compiled), job.records_per_part, job.limit):
        _add_part(plan, records, compiled, settings, build)
    return plan


def _parts(
    shards: Sequence[Shard], rubric_ids: frozenset[str], records_per_part: int, limit: int | None
) -> Iterator[list[Conversation | Rejected]]:
    """The records of every part, duplicates rejected."""
    first_of: dict[str, Place] = {}
    left = limit
    for shard in shards:
        part: list[Conversation | Rejected] = []
        number = 0
        for item in read_records(shard):
            if left == 0:
                break
            if isinstance(item, RawRecord):
                if item.index // records_per_part != number and part:
                    yield part
                    part = []
                number = item.index // records_per_part
                left = None if left is None else left - 1
            found = parse_item(item, shard, rubric_ids)
            if isinstance(found, Conversation):
                place = Place(found.source, found.record_index)
                first = first_of.setdefault(found.id, place)
                found = found if first == place else duplicate(found, first)
            part.append(found)
        if part:
            yield part


def _add_part(
    plan: Plan,
    records: list[Conversation | Rejected],
    compiled: Mapping[str, CompiledRubric],
    settings: PlanSettings,
    build: Build,
) -> None:
    planned = plan_part("", "", records, compiled, settings)
    plan.parts += 1
    plan.records += planned.counts["records"]
    plan.conversations += planned.counts["conversations"]
    plan.cases += len(planned.cases)
    plan.rejected.update(rejected.code for rejected in planned.rejected)
    for case in planned.cases:
        plan.questions += len(compiled[case.rubric_id].rubric.questions)
        plan.prompt_lengths.append(len(case.prompt_ids))
        plan.dropped_tokens += case.dropped_tokens
        plan.escaped_control_tokens += case.escaped_control_tokens
    stages = max((len(compiled[case.rubric_id].stages) for case in planned.cases), default=0)
    reads_per_call = build.max_num_seqs * CALLS_PER_BATCH
    # Cached prefixes are shared within a part only. One prompt stands for all with its label ids.
    met: dict[tuple[int, ...], tuple[int, ...]] = {}
    for stage in range(stages):
        reads = [
            read
            for case in planned.cases
            for read in _stage_reads(case, compiled[case.rubric_id], stage, settings.samples)
        ]
        plan.widths.update(read.width for read in reads)
        plan.label_sets.update(read.label_ids for read in reads)
        for start in range(0, len(reads), reads_per_call):
            call = reads[start : start + reads_per_call]
            _add_call(plan, call, list(met.values()), build)
            met.update((read.label_ids, read.prompt_ids) for read in call)


def _stage_reads(case: Case, compiled: CompiledRubric, stage: int, samples: int) -> Iterator[Read]:
    """The reads of a stage without their noise, which changes nothing that is counted; questions
    before it are taken to have been answered with their first option."""
    if stage >= len(compiled.stages):
        return
    before = [q for canvases in compiled.stages[:stage] for c in canvases for q in c.question_ids]
    prompt = case.prompt_ids
    if before:
        prompt += compiled.answer_ids(dict.fromkeys(before, 0))
    for canvas in compiled.stages[stage]:
        slots = tuple(slot.position for slot in canvas.slots)
        yield from [Read("", prompt, canvas.template_ids, slots, canvas.label_ids)] * samples


def _add_call(
    plan: Plan, reads: Sequence[Read], earlier: Sequence[tuple[int, ...]], build: Build
) -> None:
    order = engine_order(reads, joined_label_sets=build.joined_label_sets)
    prompts = ((reads[place].prompt_ids, reads[place].width) for place in order)
    call = shapes(prompts, earlier)
    plan.steps += count_steps(call, build)
    other = build.model_copy(update={"single_pass_reads": not build.single_pass_reads})
    plan.other += count_steps(call, other)
