from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.reads import Read
from engine.requests import IncompleteAnswerError, extra_args, label_logprobs

READ = Read("r", (2, 3), canvas_ids=(9, 8, 7), slots=(0, 2), label_ids=(5, 6))


def _flat(*positions: dict[int, float]) -> SimpleNamespace:
    """vLLM's flat log probabilities, sampled token first."""
    flat = SimpleNamespace(start_indices=[], end_indices=[], token_ids=[], logprobs=[])
    for position in positions:
        flat.start_indices.append(len(flat.token_ids))
        flat.token_ids += position.keys()
        flat.logprobs += position.values()
        flat.end_indices.append(len(flat.token_ids))
    return flat


def test_labels_are_found_by_id_wherever_they_stand() -> None:
    flat = _flat({6: -0.1, 7: -9.0, 5: -2.0}, {5: -1.0}, {5: -0.3, 6: -1.3})
    found = label_logprobs(READ, flat)
    assert found == {0: {5: -2.0, 6: -0.1}, 2: {5: -0.3, 6: -1.3}}
    assert [list(by_label) for by_label in found.values()] == [[5, 6], [5, 6]]


def test_a_missing_label_is_an_error() -> None:
    flat = _flat({6: -0.1, 5: -2.0}, {5: -1.0}, {5: -0.3, 7: -1.3})
    with pytest.raises(IncompleteAnswerError, match="1 of 2 labels missing at canvas position 2"):
        label_logprobs(READ, flat)


@pytest.mark.parametrize("flat", [None, _flat({5: -0.1, 6: -2.4})])
def test_a_canvas_cut_short_is_an_error(flat: SimpleNamespace | None) -> None:
    with pytest.raises(IncompleteAnswerError, match=r"^incomplete_answer: [01] canvas positions"):
        label_logprobs(READ, flat)


def test_a_read_is_one_constrained_denoising_step() -> None:
    assert extra_args(READ) == {
        "diffusion_seed_canvas": [9, 8, 7],
        "diffusion_canvas_length": 3,
        "diffusion_max_steps": 1,
        "diffusion_read_only": True,
        "diffusion_constrained": True,
    }
