"""What benchmarks ask: the shipped workload, JevBench's cases, and reads of fixed length.

The reads are fixed before anything is measured: where a question waits for another's answer, the
conversation's gold stands for it. Every arm and every pass answers the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict
from tokenizers import Tokenizer

from engine.bench.read_sets import fixed_length_reads
from engine.checkpoints import Checkpoint
from engine.reads import Read
from pipeline.importers.jevbench_240 import import_cases
from pipeline.input.conversations import Conversation, Rejected
from pipeline.input.records import parse_record
from rubrics.canvas import Canvas
from rubrics.compiler import CompiledRubric, Dialect, compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.model import Rubric, load_rubric

WORKLOAD = Path(str(files("configs").joinpath("bench", "workload.yaml")))
_SEED_ITEMS = 231  # of the public benchmark the seed counted steps with
_ITEM_TOKENS = (60, 90, 120, 150, 188, 240, 320)


class Format(BaseModel):
    """One way to ask the workload: a folder of rubrics, a dialect, a canvas width in tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubrics: str
    dialect: Dialect
    canvas: int


class WorkloadFile(BaseModel):
    """`configs/bench/workload.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    conversations: str
    seed: int
    formats: dict[str, Format]


@dataclass(frozen=True)
class Request:
    """What one caller wants at once: reads, one after the other where later ones wait.

    Attributes:
        set_name: format, or name of the set of reads.
        name: conversation, or number in the set; unique within the set.
        rubric_id: rubric of the conversation.
        reads: in the order they are asked.
        decisions: questions they answer.
    """

    set_name: str
    name: str
    rubric_id: str
    reads: tuple[Read, ...]
    decisions: int

    @property
    def prompt_tokens(self) -> int:
        return sum(len(read.prompt_ids) for read in self.reads)


class RequestWriter:
    """Writes requests for one model: its tokenizer, its vocabulary, a seed."""

    def __init__(self, checkpoint: Checkpoint, seed: int) -> None:
        tokenizer = Tokenizer.from_file(str(checkpoint.path / "tokenizer.json"))
        self._encoder = TextEncoder(tokenizer)
        self._vocab_size = checkpoint.vocab_size
        self._seed = seed

    def compiled(self, rubric: Rubric, dialect: Dialect, canvas: int) -> CompiledRubric:
        return compile_rubric(rubric, self._encoder, dialect=dialect, canvas_length=canvas)

    def request(
        self, set_name: str, conversation: Conversation, compiled: CompiledRubric, width: int = 0
    ) -> Request:
        """Everything asked of a conversation under its rubric; canvases padded to `width`."""
        known = self._known_answers(conversation, compiled)
        answers: dict[str, int] = {}
        reads: list[Read] = []
        decisions = 0
        for stage in compiled.stages:
            prompt = compiled.prompt(conversation.messages, answers)
            for canvas in stage:
                asked = [
                    question_id
                    for question_id in canvas.question_ids
                    if compiled.skipped_because(question_id, known) is None
                ]
                if asked:
                    ids = canvas.seeded(
                        self._seed, prompt.conversation_ids_sha256, 0, self._vocab_size
                    )
                    padding = (self._encoder.pad,) * (width - canvas.width)
                    name = f"{set_name}/{conversation.id}/{len(reads)}"
                    reads.append(_read(name, prompt.ids, ids + padding, canvas))
                    decisions += len(asked)
            answers |= {
                question_id: known[question_id]
                for canvas in stage
                for question_id in canvas.question_ids
                if question_id in known
            }
        return Request(set_name, conversation.id, compiled.rubric.id, tuple(reads), decisions)

    @staticmethod
    def _known_answers(conversation: Conversation, compiled: CompiledRubric) -> dict[str, int]:
        found = {}
        for question in compiled.rubric.questions:
            gold = conversation.gold.get(question.id)
            index = None if gold is None else question.find(gold)
            if index is not None:
                found[question.id] = index
        return found


def _read(name: str, prompt: tuple[int, ...], ids: tuple[int, ...], canvas: Canvas) -> Read:
    return Read(
        read_id=name,
        prompt_ids=prompt,
        canvas_ids=ids,
        slots=tuple(slot.position for slot in canvas.slots),
        label_ids=canvas.label_ids,
    )


def load_workload() -> tuple[WorkloadFile, list[Conversation]]:
    """The workload's settings and its conversations."""
    settings = WorkloadFile.model_validate(yaml.safe_load(WORKLOAD.read_text(encoding="utf-8")))
    lines = (WORKLOAD.parent / settings.conversations).read_bytes().splitlines()
    return settings, list(_conversations(lines, settings.conversations))


def _conversations(records: Iterable[Any], source: str) -> Iterable[Conversation]:
    for index, record in enumerate(records):
        parsed = parse_record(record, source, index)
        if isinstance(parsed, Rejected):
            raise ValueError(f"{source}:{index + 1}: {parsed.code}: {parsed.message}")
        yield parsed


def workload_requests(checkpoint: Checkpoint) -> dict[str, list[Request]]:
    """Requests by format."""
    settings, conversations = load_workload()
    writer = RequestWriter(checkpoint, settings.seed)
    found: dict[str, list[Request]] = {}
    for name, form in settings.formats.items():
        rubrics = {
            file.stem: writer.compiled(load_rubric(file), form.dialect, form.canvas)
            for file in sorted((WORKLOAD.parent / form.rubrics).glob("*.yaml"))
        }
        found[name] = [
            writer.request(name, conversation, rubrics[rubric_id], form.canvas)
            for conversation in conversations
            for rubric_id in conversation.rubrics or ()
        ]
    return found


def jevbench_requests(checkpoint: Checkpoint, path: Path) -> list[Request]:
    """One request per case of JevBench-240; raises `pipeline.yaml_files.ConfigError`."""
    imported = import_cases(path)
    writer = RequestWriter(checkpoint, seed=42)
    rubrics = {rubric.id: writer.compiled(rubric, "lines", 64) for rubric in imported.rubrics}
    return [
        writer.request("jevbench-240", conversation, rubrics[rubric_id])
        for shard, records in imported.shards.items()
        for conversation in _conversations((dict(record) for record in records), shard)
        for rubric_id in conversation.rubrics or ()
    ]


def item_requests(checkpoint: Checkpoint) -> list[Request]:
    """As many single-question reads as the public benchmark has items, of like lengths."""
    by_length = [
        fixed_length_reads(
            -(-_SEED_ITEMS // len(_ITEM_TOKENS)),
            tokens,
            vocab_size=checkpoint.vocab_size,
            width=16,
            slots=1,
            seed=tokens,
        )
        for tokens in _ITEM_TOKENS
    ]
    turns = [read for group in zip(*by_length, strict=True) for read in group][:_SEED_ITEMS]
    return as_requests(f"{_SEED_ITEMS} items", turns)


def fixed_length_requests(
    checkpoint: Checkpoint, lengths: Iterable[int], count: int
) -> dict[str, list[Request]]:
    """`count` requests per prompt length, by a name that states it."""
    return {
        f"{tokens} tokens": as_requests(
            f"{tokens} tokens",
            fixed_length_reads(count, tokens, vocab_size=checkpoint.vocab_size, seed=tokens),
        )
        for tokens in lengths
    }


def as_requests(set_name: str, reads: Iterable[Read]) -> list[Request]:
    """One request for each read."""
    return [
        Request(set_name, str(number), "", (read,), len(read.slots))
        for number, read in enumerate(reads)
    ]


def all_reads(requests: Iterable[Request]) -> list[Read]:
    """Their reads, in order, with ids that are unique among them."""
    return [
        replace(read, read_id=f"{number}/{read.read_id}")
        for number, request in enumerate(requests)
        for read in request.reads
    ]


def description(sets: Mapping[str, list[Request]]) -> dict[str, Any]:
    """Sizes of the sets, for the result's configuration."""
    return {
        name: {
            "requests": len(requests),
            "reads": sum(len(request.reads) for request in requests),
            "decisions": sum(request.decisions for request in requests),
            "prompt_tokens": sum(request.prompt_tokens for request in requests),
            "widths": sorted({read.width for request in requests for read in request.reads}),
        }
        for name, requests in sets.items()
    }
