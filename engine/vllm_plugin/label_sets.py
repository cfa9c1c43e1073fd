"""One small unembedding for a step whose reads have different label sets.

vLLM computes logits of a label set only when all rows of a step share it, and of the whole
vocabulary otherwise. Here they are computed for the union of the sets, and each row is masked to
its own set before anything looks at it: softmax, argmax and entropy are those of the row alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from vllm.model_executor.models.diffusion_gemma import DiffusionSampler
from vllm.v1.outputs import LogprobsTensors

MASKED_LOGIT = -1e20
"""Large and finite, as vLLM masks: probability 0 times its logarithm is then 0, not NaN."""


def join_label_sets(states: Any, input_batch: Any) -> None:
    """Set the step's allowed ids to the union of its reads' label sets.

    Left alone where vLLM already found one set for all, and where a row is unconstrained.
    """
    if input_batch.num_draft_tokens == 0 or states.step_allowed is not None:
        return
    label_sets = step_label_sets(states, input_batch)
    if label_sets and all(labels is not None for labels in label_sets):
        union = sorted({label for labels in label_sets for label in labels or ()})
        states.step_allowed = states.allowed_tensor(tuple(union))


def step_label_sets(states: Any, input_batch: Any) -> list[tuple[int, ...] | None]:
    """The label set of each row with logits, in batch order; None for an unconstrained one."""
    slots = input_batch.idx_mapping_np[: input_batch.num_reqs]
    has_logits = np.diff(input_batch.cu_num_logits_np[: input_batch.num_reqs + 1]) > 0
    return [states.constrained.get(slot) for slot in slots[has_logits].tolist()]


class JoinedLabelSampler(DiffusionSampler):  # type: ignore[misc]
    """vLLM's sampler for a step whose allowed ids are a union: rows masked to their own.

    Made from a `DiffusionSampler` by `adopt`.
    """

    @classmethod
    def adopt(cls, sampler: DiffusionSampler) -> DiffusionSampler:
        """Turn the sampler the base model state built into one of this class."""
        sampler.__class__ = cls
        sampler._pending_logprobs = OwnLabelLogprobs(sampler.diffusion_states)
        return sampler

    def __call__(self, logits: torch.Tensor, input_batch: Any, draft_logits: Any = None) -> Any:
        states = self.diffusion_states
        if states.step_allowed is not None and input_batch.num_draft_tokens > 0:
            label_sets = step_label_sets(states, input_batch)
            if len(set(label_sets)) > 1:
                counts = np.diff(input_batch.cu_num_logits_np[: input_batch.num_reqs + 1])
                logits = mask_other_labels(
                    logits,
                    [_columns(states, labels) for labels in label_sets if labels is not None],
                    counts[counts > 0],
                )
        return super().__call__(logits, input_batch, draft_logits)


class OwnLabelLogprobs(dict[int, LogprobsTensors]):
    """Slot to the log probabilities it will report: of its own labels, in its own order.

    The sampler keeps them per slot, with a column for every allowed id of the step; the labels of
    other reads are dropped as they come in.
    """

    def __init__(self, states: Any) -> None:
        super().__init__()
        self._states = states

    def __setitem__(self, slot: int, found: LogprobsTensors) -> None:
        labels, allowed = self._states.constrained.get(slot), self._states.step_allowed
        if labels is not None and allowed is not None and len(labels) < allowed.numel():
            # Column 0 is the chosen id, the allowed ids follow.
            columns = torch.cat(
                (torch.zeros(1, dtype=torch.int64), 1 + _columns(self._states, labels))
            )
            found = found._replace(
                logprob_token_ids=found.logprob_token_ids[:, columns],
                logprobs=found.logprobs[:, columns],
            )
        super().__setitem__(slot, found)


def _columns(states: Any, labels: tuple[int, ...]) -> torch.Tensor:
    """Where the labels stand among the step's allowed ids, which ascend; in the labels' order."""
    return torch.searchsorted(states.step_allowed, states.allowed_tensor(labels))


def mask_other_labels(
    logits: torch.Tensor, columns: list[torch.Tensor], counts: npt.NDArray[np.integer]
) -> torch.Tensor:
    """A copy of `logits` [rows, allowed ids] where request i keeps `columns[i]` only.

    Request i owns `counts[i]` rows, one request after the other.
    """
    keep = torch.zeros((len(columns), logits.shape[1]), dtype=torch.bool)
    for row, own in zip(keep, columns, strict=True):
        row[own] = True
    repeats = torch.from_numpy(counts.astype(np.int64))
    return logits.masked_fill(~keep.repeat_interleave(repeats, dim=0), MASKED_LOGIT)
