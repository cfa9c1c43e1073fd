"""Joined label sets: each read as if it were alone, and told about its own labels only."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.engine.vllm_plugin.engines import LABELS, Engine, largest_difference, make_read


@pytest.mark.engine
def test_same_probabilities_as_alone(off: Engine, on: Engine) -> None:
    rng = random.Random(1)
    reads = [make_read(rng, 30, width, LABELS[i % 3]) for i, width in enumerate([16, 8, 32, 16])]
    for engine in (off, on):
        engine.forget()
    assert largest_difference(off.ask_each(reads), on.ask(reads)) < 1e-5


@pytest.mark.engine
def test_a_read_hears_of_its_own_labels_only(on: Engine) -> None:
    rng = random.Random(2)
    reads = [make_read(rng, 30, 16, labels) for labels in LABELS]
    for read, asked in zip(reads, on.ask(reads), strict=True):
        flat = asked.outputs.outputs[0].logprobs
        assert set(flat.token_ids) == set(read.label_ids)
        assert np.isfinite(flat.logprobs).all()
        assert min(flat.logprobs) > -1e6
        assert set(asked.token_ids) <= set(read.label_ids)
        np.testing.assert_allclose(np.exp(asked.logprobs).sum(axis=1), 1, atol=1e-5)


@pytest.mark.engine
def test_committing_requests_with_other_labels(off: Engine, on: Engine) -> None:
    """Their log probabilities come from one step and are reported in the next."""
    rng = random.Random(3)
    reads = [make_read(rng, 30, 16, labels) for labels in LABELS]
    committing = {i: {"extra_args": {"diffusion_read_only": False}} for i in range(3)}
    for engine in (off, on):
        engine.forget()
    slow, fast = off.ask(reads, committing), on.ask(reads, committing)
    assert largest_difference(slow, fast) < 1e-4
    for read, asked in zip(reads, fast, strict=True):
        assert set(asked.outputs.outputs[0].logprobs.token_ids) == set(read.label_ids)


def test_mask_keeps_each_requests_columns() -> None:
    from engine.vllm_plugin.label_sets import MASKED_LOGIT, mask_other_labels

    logits = torch.arange(15.0).reshape(5, 3)
    columns = [torch.tensor([0, 2]), torch.tensor([1])]
    masked = mask_other_labels(logits, columns, np.array([2, 3]))
    kept = masked != MASKED_LOGIT
    assert kept.tolist() == [[True, False, True]] * 2 + [[False, True, False]] * 3
    assert torch.equal(masked[kept], logits[kept])
    assert torch.equal(logits, torch.arange(15.0).reshape(5, 3))


@pytest.mark.parametrize(
    ("constrained", "expected"),
    [
        ({0: (5, 3), 1: (9,)}, [3, 5, 9]),
        ({0: (5, 3)}, None),  # request 1 is unconstrained
        ({}, None),
    ],
)
def test_union_needs_every_row_constrained(
    constrained: dict[int, tuple[int, ...]], expected: list[int] | None
) -> None:
    from engine.vllm_plugin.label_sets import join_label_sets

    states = SimpleNamespace(
        step_allowed=None, constrained=constrained, allowed_tensor=torch.tensor
    )
    batch = SimpleNamespace(
        num_draft_tokens=8,
        num_reqs=3,
        idx_mapping_np=np.array([1, 2, 0]),  # request 2 is in its prompt: no logits
        cu_num_logits_np=np.array([0, 4, 4, 8]),
    )
    join_label_sets(states, batch)
    found = states.step_allowed
    assert (found if found is None else found.tolist()) == expected
