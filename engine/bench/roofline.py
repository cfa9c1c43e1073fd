"""The least time a read can take: bytes that must move, products that must be computed.

Counted from the checkpoint's shapes. Activations are taken to stay in cache and every weight to be
read once a step, so no implementation is faster than this floor; experts are counted as often as
uniform routing touches them, which correlated tokens do less.

>>> tiny = Shape(hidden=4, layers=("sliding_attention",), heads=2, kv_heads=1, global_kv_heads=1,
...              head_dim=2, global_head_dim=4, dense=8, expert=2, experts=4, experts_per_token=2,
...              window=8)
>>> tiny.experts_touched(1)
2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Rates:
    """What a machine can do: bytes read per second, floating-point operations per second."""

    bytes_per_second: float
    flops_per_second: float


@dataclass(frozen=True)
class Work:
    """What one engine step must do."""

    bytes: float
    flops: float

    def seconds(self, rates: Rates) -> float:
        """The longer of moving and computing: at best they overlap entirely."""
        return max(self.bytes / rates.bytes_per_second, self.flops / rates.flops_per_second)


@dataclass(frozen=True)
class Shape:
    """A DiffusionGemma text model, in elements. `layers` are its layer types in order."""

    hidden: int
    layers: tuple[str, ...]
    heads: int
    kv_heads: int
    global_kv_heads: int
    head_dim: int
    global_head_dim: int
    dense: int
    expert: int
    experts: int
    experts_per_token: int
    window: int

    @classmethod
    def of_config(cls, config: dict[str, Any]) -> Shape:
        """From `config.json`'s content."""
        text = config.get("text_config", config)
        full = _full_attention(text)
        return cls(
            hidden=text["hidden_size"],
            layers=tuple(text["layer_types"]),
            heads=text["num_attention_heads"],
            kv_heads=text["num_key_value_heads"],
            global_kv_heads=full["num_key_value_heads"],
            head_dim=text["head_dim"],
            global_head_dim=full["head_dim"],
            dense=text["intermediate_size"],
            expert=text["moe_intermediate_size"],
            experts=text["num_experts"],
            experts_per_token=text["top_k_experts"],
            window=text["sliding_window"],
        )

    def attention_weights(self, layer: str) -> int:
        """Parameters of a layer's attention; full layers use their keys as values."""
        heads, kv, dim, projections = self._attention(layer)
        return self.hidden * dim * (2 * heads + projections * kv)

    def kv_elements(self, layer: str) -> int:
        """Keys and values a layer keeps of one token."""
        _, kv, dim, _ = self._attention(layer)
        return 2 * kv * dim

    def _attention(self, layer: str) -> tuple[int, int, int, int]:
        """Query heads, key heads, head size, and how many of keys and values are projected."""
        if layer == "full_attention":
            return self.heads, self.global_kv_heads, self.global_head_dim, 1
        return self.heads, self.kv_heads, self.head_dim, 2

    @property
    def expert_weights(self) -> int:
        """Parameters of one expert."""
        return 3 * self.hidden * self.expert

    @property
    def always_read(self) -> int:
        """Parameters every step reads: attention, the dense part, the router."""
        per_layer = 3 * self.hidden * self.dense + self.hidden * self.experts
        return sum(per_layer + self.attention_weights(layer) for layer in self.layers)

    @property
    def active_weights(self) -> int:
        """Parameters one token is multiplied with."""
        experts = len(self.layers) * self.experts_per_token * self.expert_weights
        return self.always_read + experts

    def experts_touched(self, tokens: int) -> float:
        """Expected number of experts of a layer that `tokens` tokens reach, routed uniformly."""
        missed = (1 - self.experts_per_token / self.experts) ** tokens
        return self.experts * (1 - missed)

    def step(self, reads: Sequence[ReadShape], bytes_per_element: int) -> Work:
        """One engine step that computes these parts of reads together."""
        tokens = sum(read.prompt + read.canvas for read in reads)
        elements: float = self.always_read
        elements += len(self.layers) * self.experts_touched(tokens) * self.expert_weights
        elements += (max(read.labels for read in reads) + tokens) * self.hidden
        flops = 2.0 * tokens * self.active_weights
        for read in reads:
            flops += 2.0 * read.canvas * read.labels * self.hidden
            for layer in self.layers:
                heads, _, dim, _ = self._attention(layer)
                window = self.window if layer != "full_attention" else None
                flops += 4.0 * read.pairs(window) * heads * dim
                # Written by this step, and read at least once.
                elements += self.kv_elements(layer) * (2 * read.prompt + 2 * read.canvas)
                elements += self.kv_elements(layer) * read.cached
        return Work(elements * bytes_per_element, flops)

    def read_floor(
        self, read: ReadShape, rates: Rates, dtype: str, *, single_pass: bool = True
    ) -> float:
        """Seconds one read takes at least, alone, in one engine step or in two."""
        size = BYTES[dtype]
        if single_pass:
            return self.step([read], size).seconds(rates)
        prompt = ReadShape(read.prompt, 0, read.labels, read.cached)
        canvas = ReadShape(0, read.canvas, read.labels, read.cached + read.prompt)
        return sum(self.step([part], size).seconds(rates) for part in (prompt, canvas))


@dataclass(frozen=True)
class ReadShape:
    """The part of a read one step computes, in tokens; `cached` are those already in the cache."""

    prompt: int
    canvas: int
    labels: int
    cached: int = 0

    def pairs(self, window: int | None) -> float:
        """(query, key) pairs attention must look at: causal prompt, bidirectional canvas."""
        seen = [self.cached + place + 1 for place in range(self.prompt)]
        seen += [self.cached + self.prompt + self.canvas] * self.canvas
        return float(sum(min(keys, window + self.canvas) if window else keys for keys in seen))


def _full_attention(text: dict[str, Any]) -> dict[str, int]:
    """Key heads and head size of full layers: stated once, or by layer where they differ."""
    if "global_head_dim" in text:
        return {
            "num_key_value_heads": text["num_global_key_value_heads"],
            "head_dim": text["global_head_dim"],
        }
    layer = str(text["layer_types"].index("full_attention"))
    found: dict[str, int] = text | text.get("per_layer_config", {}).get(layer, {})
    return found
