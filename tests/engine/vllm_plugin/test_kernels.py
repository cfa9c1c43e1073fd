"""Every CPU kernel against vLLM's Triton kernel of the same name, on random batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.vllm_plugin.kernels import KERNELS
from tests.engine.vllm_plugin.triton_reference import kernel

MAX_REQS, MAX_LEN, VOCABULARY = 8, 64, 300
SEEDS = range(6)


class Batch:
    """A random batch: some requests in their prompt, some past it, in shuffled slots."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.rows = int(rng.integers(1, MAX_REQS))
        self.slots = ints(rng.permutation(MAX_REQS)[: self.rows])
        self.lengths = rng.integers(1, 12, self.rows)
        self.starts = ints(np.concatenate([[0], np.cumsum(self.lengths)]))
        self.tokens = int(self.starts[-1])
        self.computed = ints(rng.integers(0, 30, MAX_REQS))
        self.prefill = ints(rng.integers(1, 45, MAX_REQS))
        self.all_ids = ints(rng.integers(1, VOCABULARY, (MAX_REQS, MAX_LEN)))
        # Logit rows: none for rows still in their prompt, up to all scheduled tokens for others.
        self.logit_counts = np.array([rng.integers(0, n + 1) for n in self.lengths])
        self.cu_logits = ints(np.concatenate([[0], np.cumsum(self.logit_counts)]))
        self.seq_lens = torch.zeros(MAX_REQS, dtype=torch.int32)
        self.seq_lens[: self.rows] = self.computed[self.slots.long()] + ints(self.lengths)


def ints(values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)


def agree(
    name: str, grid: tuple[int, ...], arguments: list[Any], constants: dict[str, Any] | None = None
) -> None:
    """Run both kernels on copies of the arguments: afterwards every tensor must be equal."""
    full = f"vllm.v1.worker.gpu.{name}"
    mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    theirs = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    KERNELS[full](*mine, **(constants or {}))
    kernel(full)[grid](*theirs, **(constants or {}))
    for position, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, msg=lambda text, p=position: f"argument {p}: {text}")


def test_every_kernel_is_tested() -> None:
    text = Path(__file__).read_text()
    assert all(name.removeprefix("vllm.v1.worker.gpu.") in text for name in KERNELS)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
def test_apply_write(seed: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    writes = int(rng.integers(1, 6))
    lengths = rng.integers(0, 9, writes)
    agree(
        "buffer_utils._apply_write_kernel",
        (writes,),
        [
            ints(rng.integers(0, 9, (MAX_REQS, 20)), dtype),
            20,
            ints(rng.permutation(MAX_REQS)[:writes]),
            ints(rng.integers(0, 10, writes)),
            ints(rng.integers(0, 100, max(1, lengths.sum())), dtype),
            ints(np.cumsum(lengths)),
            None,
        ],
        {"BLOCK_SIZE": 1024, "MULTI_GROUP": False},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_apply_write_to_a_vector(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agree(
        "buffer_utils._apply_write_kernel",
        (3,),
        [
            ints(rng.integers(0, 9, MAX_REQS)),
            1,
            ints(rng.permutation(MAX_REQS)[:3]),
            ints([0, 0, 0]),
            ints(rng.integers(0, 100, 3)),
            ints([1, 2, 3]),
            None,
        ],
        {"BLOCK_SIZE": 1024, "MULTI_GROUP": False},
    )


def addresses(tables: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([table.data_ptr() for table in tables], dtype=torch.uint64)


def tables_of(rng: np.random.Generator, widths: tuple[int, ...]) -> list[torch.Tensor]:
    return [ints(rng.integers(0, 50, (MAX_REQS, width))) for width in widths]


@pytest.mark.parametrize("seed", SEEDS)
def test_apply_write_to_several_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mine = tables_of(rng, (20, 32))
    theirs = [table.clone() for table in mine]
    lengths = rng.integers(1, 9, 4)
    rest = [
        torch.tensor([20, 32]),
        ints(rng.permutation(MAX_REQS)[:4]),
        ints(rng.integers(0, 10, 4)),
        ints(rng.integers(100, 200, lengths.sum())),
        ints(np.cumsum(lengths)),
        ints(np.sort(rng.integers(0, 2, 4))),
    ]
    constants = {"BLOCK_SIZE": 1024, "MULTI_GROUP": True}
    full = "vllm.v1.worker.gpu.buffer_utils._apply_write_kernel"
    KERNELS[full](addresses(mine), *rest, **constants)
    kernel(full)[(4,)](addresses(theirs), *rest, **constants)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a, b)
    assert any((table >= 100).any() for table in mine)


@pytest.mark.parametrize("seed", SEEDS)
def test_gather_block_tables(seed: int) -> None:
    batch = Batch(seed)
    source = tables_of(batch.rng, (20, 32))
    mine = [torch.full_like(table, -7) for table in source]
    theirs = [table.clone() for table in mine]
    counts = ints(batch.rng.integers(0, 20, (2, MAX_REQS)))
    full = "vllm.v1.worker.gpu.block_table._gather_block_tables_kernel"
    for run, target in ((KERNELS[full], mine), (kernel(full)[(2, batch.rows)], theirs)):
        run(
            batch.slots,
            addresses(source),
            addresses(target),
            torch.tensor([20, 32]),
            counts,
            MAX_REQS,
            batch.rows,
            BLOCK_SIZE=1024,
        )
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("seed", SEEDS)
def test_compute_slot_mappings(seed: int) -> None:
    batch = Batch(seed)
    tables = tables_of(batch.rng, (20, 32))
    positions = batch.rng.integers(0, 60, batch.tokens)
    slots = batch.slots.clone()
    if seed % 2:
        slots[-1] = -1  # a dummy request
    agree(
        "block_table._compute_slot_mappings_kernel",
        (2, batch.rows + 1),
        [
            100,
            slots,
            batch.starts,
            ints(positions, torch.int64),
            addresses(tables),
            torch.tensor([20, 32]),
            ints([16, 4]),
            torch.tensor([True, seed % 3 != 0]),
            torch.tensor([True, True]),
            torch.full((2, 100), -9, dtype=torch.int64),
            100,
            0,
        ],
        {"CP_SIZE": 1, "CP_INTERLEAVE": 1, "PAD_ID": -1, "TRITON_BLOCK_SIZE": 1024},
    )


def test_slot_mappings_refuse_context_parallelism() -> None:
    name = "vllm.v1.worker.gpu.block_table._compute_slot_mappings_kernel"
    with pytest.raises(NotImplementedError, match="context parallelism"):
        KERNELS[name](*([None] * 12), CP_SIZE=2)


@pytest.mark.parametrize("lookahead", [1, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_prepare_prefill_inputs(seed: int, lookahead: int) -> None:
    batch = Batch(seed)
    agree(
        "input_batch._prepare_prefill_inputs_kernel",
        (batch.rows,),
        [
            torch.full((batch.tokens + 5,), -3, dtype=torch.int32),
            torch.full((lookahead, MAX_REQS), -3, dtype=torch.int32),
            MAX_REQS,
            lookahead,
            batch.slots,
            batch.starts,
            batch.all_ids,
            MAX_LEN,
            batch.prefill,
            batch.computed,
        ],
        {"BLOCK_SIZE": 1024, "LOOKAHEAD_BLOCK": 4},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_prepare_pos_seq_lens(seed: int) -> None:
    batch = Batch(seed)
    agree(
        "input_batch._prepare_pos_seq_lens_kernel",
        (batch.rows + 1,),
        [
            torch.full((batch.tokens + 5,), -3, dtype=torch.int64),
            torch.full((MAX_REQS,), -3, dtype=torch.int32),
            batch.slots,
            batch.starts,
            batch.computed,
            MAX_REQS,
        ],
        {"BLOCK_SIZE": 1024},
    )


@pytest.mark.parametrize("new_tokens", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_combine_sampled_and_draft_tokens(seed: int, new_tokens: int) -> None:
    batch = Batch(seed)
    agree(
        "input_batch._combine_sampled_and_draft_tokens_kernel",
        (batch.rows,),
        [
            torch.full((batch.tokens,), -3, dtype=torch.int32),
            batch.slots,
            ints(batch.rng.integers(0, 99, (MAX_REQS, 1)), torch.int64),
            batch.starts,
            batch.seq_lens,
            batch.prefill,
            ints(batch.rng.integers(100, 199, (MAX_REQS, 16)), torch.int64),
            16,
            batch.cu_logits,
            torch.full((int(batch.cu_logits[-1]),), -3, dtype=torch.int64),
        ],
        {"BLOCK_SIZE": 16, "NUM_NEW_SAMPLED_TOKENS": new_tokens},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_expand_idx_mapping(seed: int) -> None:
    batch = Batch(seed)
    total = int(batch.cu_logits[-1])
    agree(
        "input_batch._expand_idx_mapping_kernel",
        (batch.rows,),
        [
            batch.slots,
            torch.full((total,), -3, dtype=torch.int32),
            torch.full((total,), -3, dtype=torch.int32),
            batch.cu_logits,
        ],
        {"BLOCK_SIZE": 16},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_get_num_sampled_and_rejected(seed: int) -> None:
    batch = Batch(seed)
    agree(
        "input_batch._get_num_sampled_and_rejected_kernel",
        (batch.rows,),
        [
            ints(batch.rng.integers(0, 5, batch.rows)),
            torch.full((batch.rows,), -3, dtype=torch.int32),
            batch.seq_lens,
            batch.cu_logits,
            batch.slots,
            batch.prefill,
        ],
    )


@pytest.mark.parametrize("penalties", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_post_update(seed: int, penalties: bool) -> None:
    batch = Batch(seed)
    slots = batch.slots.clone()
    if seed % 2:
        slots[0] = -1
    counts = torch.zeros((MAX_REQS, VOCABULARY), dtype=torch.int32) if penalties else None
    agree(
        "input_batch._post_update_kernel",
        (batch.rows,),
        [
            slots,
            batch.computed,
            torch.full((MAX_REQS, 1), -3, dtype=torch.int64),
            counts,
            VOCABULARY if penalties else 0,
            ints(batch.rng.integers(0, 5, (batch.rows, 10))),
            10,
            ints(batch.rng.integers(0, 11, batch.rows)),
            ints(batch.rng.integers(0, 3, batch.rows)),
            batch.starts if seed % 3 else None,
            batch.all_ids,
            MAX_LEN,
            ints(batch.rng.integers(10, 40, MAX_REQS)),
        ],
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_post_update_num_computed_tokens(seed: int) -> None:
    batch = Batch(seed)
    agree(
        "input_batch._post_update_num_computed_tokens_kernel",
        (batch.rows,),
        [batch.slots, batch.computed, batch.starts],
    )


def random_logits(rng: np.random.Generator, rows: int) -> torch.Tensor:
    logits = torch.from_numpy(rng.normal(0, 8, (rows, VOCABULARY)).astype(np.float32))
    logits[:, ::7] = -1e20  # as vLLM masks ids outside a read's label set
    logits[:, 1] = logits[:, 2]  # a tie
    return logits


# Triton's interpreter cannot run these two outside its global interpreter mode: NumPy, float64.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", SEEDS)
def test_topk_log_softmax(seed: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 20))
    logits = random_logits(rng, rows).to(dtype)
    ids = rng.integers(0, VOCABULARY, (rows, columns))
    output = torch.empty((rows, columns)).fill_(-3)
    KERNELS["vllm.v1.worker.gpu.sample.logprob._topk_log_softmax_kernel"](
        output,
        logits,
        VOCABULARY,
        ints(ids, torch.int64),
        columns,
        columns,
        VOCABULARY,
        BLOCK_SIZE=1024,
        TOPK_BLOCK_SIZE=32,
    )
    exact = logits.double().numpy()
    largest = exact.max(axis=1, keepdims=True)
    total = np.exp(exact - largest).sum(axis=1, keepdims=True)
    expected = np.take_along_axis(exact - largest - np.log(total), ids, axis=1)
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 9))
    logits = random_logits(rng, rows)
    ids = rng.integers(0, VOCABULARY, rows)
    ids[0] = 1
    output = torch.full((rows,), -3, dtype=torch.int64)
    KERNELS["vllm.v1.worker.gpu.sample.logprob._ranks_kernel"](
        output, logits, VOCABULARY, ints(ids, torch.int64), VOCABULARY, BLOCK_SIZE=8192
    )
    for row in range(rows):
        values = logits[row].tolist()
        assert output[row] == sum(value >= values[ids[row]] for value in values)


@pytest.mark.parametrize("top_k", [0, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_fill_logprob_token_ids(seed: int, top_k: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 9)), 16
    counts = rng.integers(1 if top_k == 0 else 0, columns + 1, MAX_REQS)
    agree(
        "sample.logprob._fill_logprob_token_ids_kernel",
        (rows,),
        [
            torch.zeros((rows, 1 + columns), dtype=torch.int64),
            1 + columns,
            torch.zeros((rows, 1 + columns), dtype=torch.bool),
            1 + columns,
            ints(rng.integers(0, VOCABULARY, rows), torch.int64),
            ints(rng.integers(0, VOCABULARY, (rows, max(1, top_k)))),
            max(1, top_k),
            ints(rng.integers(0, MAX_REQS, rows)),
            ints(counts),
            ints(rng.integers(0, VOCABULARY, (MAX_REQS, 32))),
            32,
        ],
        {"NUM_TOPK": top_k, "PADDED_COLS": 16},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_prompt_logprobs_token_ids(seed: int) -> None:
    batch = Batch(seed)
    agree(
        "sample.prompt_logprob._prompt_logprobs_token_ids_kernel",
        (batch.rows,),
        [
            torch.full((batch.tokens,), -3, dtype=torch.int64),
            batch.starts,
            batch.slots,
            batch.computed,
            batch.all_ids,
            MAX_LEN,
        ],
        {"BLOCK_SIZE": 1024},
    )
