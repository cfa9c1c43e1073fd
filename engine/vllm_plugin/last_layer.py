"""A last layer that finishes the positions with logits only.

Nobody reads what the last layer makes of a prompt's tokens: later layers would, and there are
none. Their keys and values are needed, the rest of the layer is not: output projection, MLP,
experts and norms run for the canvas positions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.model_executor.models.gemma4 import Gemma4DecoderLayer


class CanvasOnlyLayer(Gemma4DecoderLayer):  # type: ignore[misc]
    """vLLM's layer, run for some positions after attention. Made from a loaded one by `adopt`.

    Attributes:
        rows: int64, the positions of the step to finish; None for all of them.
    """

    rows: torch.Tensor | None
    _attended: Callable[..., torch.Tensor] | None

    @classmethod
    def adopt(cls, layer: Gemma4DecoderLayer) -> CanvasOnlyLayer:
        """Turn the layer vLLM built and loaded into one of this class."""
        layer.__class__ = cls
        layer.rows = None
        layer._attended = None
        layer.self_attn.o_proj.register_forward_pre_hook(layer._keep_rows)
        adopted: CanvasOnlyLayer = layer
        return adopted

    @property
    def self_attn(self) -> Any:
        """The attention block, or what it already found for this step."""
        return self._attended or self._modules["self_attn"]

    def _keep_rows(self, module: Any, arguments: tuple[torch.Tensor, ...]) -> Any:
        attended, *others = arguments
        return (attended if self.rows is None else attended[self.rows], *others)

    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None,
        per_layer_input: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        rows = self.rows
        if rows is None or per_layer_input is not None:
            self.rows = None  # so that attention keeps all of them, too
            return super().forward(positions, hidden_states, residual, per_layer_input, **kwargs)
        attended = self.self_attn(
            positions=positions, hidden_states=self.input_layernorm(hidden_states), **kwargs
        )
        # The base class does the rest, on the kept rows, and asks for attention again.
        self._attended = lambda **_: attended
        try:
            kept, _ = super().forward(positions[rows], hidden_states[rows], None, **kwargs)
        finally:
            self._attended = None
        finished = torch.zeros_like(hidden_states)
        finished[rows] = kept
        return finished, None


def rows_to_finish(input_batch: Any) -> torch.Tensor | None:
    """Positions of the step that get logits; None when all do.

    A step without any, inside a long prompt, finishes its first position: kernels are not made
    for empty inputs.
    """
    rows: torch.Tensor = input_batch.logits_indices
    if len(rows) == input_batch.num_tokens:
        return None
    return rows if len(rows) else torch.zeros(1, dtype=torch.int64)
