"""`onepass train-tiny`: trains the embedded model anew and measures it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import configs
from engine.tiny.checkpoint import CHECKPOINT, load, save
from engine.tiny.corpus import PHRASES, Corpus
from engine.tiny.evidence import word_evidence
from engine.tiny.tokenizer import VOCAB_SIZE, train_tokenizer
from engine.tiny.train import Progress, train
from pipeline.tiny.batches import BatchMaker
from pipeline.tiny.demo import write_demo_data
from pipeline.tiny.evaluation import (
    GoldConversation,
    Quality,
    handwritten,
    heldout,
    measure,
    read_with_transformers,
)
from rubrics.compiler import compile_rubric
from rubrics.model import Rubric, load_rubric

TOKENIZER_CONVERSATIONS = 4000
EVIDENCE_CONVERSATIONS = 20_000
VARIANT_SHARE = 0.1


def train_tiny(
    folder: Annotated[Path, typer.Option(help="Where the checkpoint goes.")] = CHECKPOINT,
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = 2100,
    seed: Annotated[int, typer.Option(help="Of weights, corpus and noise.")] = 1,
    processes: Annotated[int, typer.Option(min=1, help="Processes of one thread.")] = 2,
) -> None:
    """Train the embedded model, rewrite the demonstration's data, print how good the model is."""
    _make_transformers_importable()
    console = Console(highlight=False)
    started = time.perf_counter()
    rubric = load_rubric("triage")
    tokenizer = train_tokenizer(tokenizer_texts(rubric))
    evidence = word_evidence(
        map(Corpus("train").conversation, range(EVIDENCE_CONVERSATIONS)),
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        VOCAB_SIZE,
    )

    def report(progress: Progress) -> None:
        console.print(
            f"step {progress.step} of {steps}  loss {progress.loss:.3f}  {progress.seconds:.0f} s"
        )

    model = train(
        BatchMaker(tokenizer, rubric, seed, VARIANT_SHARE),
        steps=steps,
        seed=seed,
        processes=processes,
        evidence=evidence,
        report=report,
    )
    save(model, tokenizer, folder)
    write_demo_data(Path(configs.__file__).parent / "demo")
    console.print(f"wrote {folder} after {time.perf_counter() - started:.0f} s")
    measure_tiny(folder)


def measure_tiny(
    folder: Annotated[Path, typer.Option(help="The checkpoint.")] = CHECKPOINT,
    items: Annotated[int, typer.Option(min=1, help="Held-out conversations.")] = 300,
) -> None:
    """Print the embedded model's accuracy and calibration."""
    _make_transformers_importable()
    model, tokenizer = load(folder)
    own = handwritten(CHECKPOINT / "handwritten.jsonl")
    console = Console(highlight=False)
    for dialect in ("lines", "compact"):
        compiled = compile_rubric(load_rubric("triage"), tokenizer, dialect=dialect)
        for name, conversations in (("held-out", heldout(items)), ("handwritten", own)):
            read = read_with_transformers(model, tokenizer.get_vocab_size())
            figures = measure(compiled, conversations, read)
            console.print(_table(f"{name}, {dialect}", conversations, figures))


def tokenizer_texts(rubric: Rubric) -> list[str]:
    """What the tokenizer is fitted to: the corpus, common English words, the rubric's words."""
    corpus = Corpus("train")
    texts = [
        content
        for seed in range(TOKENIZER_CONVERSATIONS)
        for _, content in corpus.conversation(seed).messages
    ]
    common = (PHRASES / "common_words.txt").read_text(encoding="utf-8").split()
    texts += [f" {word}" for word in common] * 3
    words = [rubric.instructions or ""]
    for question in rubric.questions:
        words += [question.id, f" {question.text}"]
        words += [f" {option.name} {option.description or ''}" for option in question.options]
    return texts + words * 50


def _table(title: str, items: list[GoldConversation], figures: dict[str, Quality]) -> Table:
    table = Table("question", "accuracy", "within one", "calibration error", "mean probability")
    table.title = f"{title} ({len(items)})"
    for question_id, quality in figures.items():
        table.add_row(
            question_id,
            f"{quality.accuracy:.1%}",
            f"{quality.near_accuracy:.1%}",
            f"{quality.calibration_error:.3f}",
            f"{quality.mean_probability:.3f}",
        )
    return table


def _make_transformers_importable() -> None:
    from engine.vllm_plugin import torchvision_fix

    torchvision_fix.install()
