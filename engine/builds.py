"""A build: the configuration of one engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator


class Build(BaseModel):
    """Configuration of one engine, as in `configs/builds/*.yaml`.

    `model` is `tiny` (the embedded checkpoint), a local folder or a `gs://` folder. `name` is the
    file's stem; it becomes the `build=` partition of the tables.

    `block_size` is the KV cache's, in tokens; the CPU's attention takes multiples of 32. Only whole
    blocks of a prompt are found in the prefix cache: with vLLM's 128, reads of a rubric's 250-token
    prefix and a 120-token conversation took 42% more CPU time than with 32, draws of one prompt
    33%; a lone read took the same.

    `compile` is for engines that live long. Starting one took 28 CPU seconds with `off`, 102 with
    `helpers` and 124 with `full` (embedded model, one core, empty compiler cache), and a read
    7.0, 8.1 and 5.6 ms: `full` pays for itself after some 70,000 reads.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    model: str = "tiny"
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    single_pass_reads: bool = False
    canvas_length: int = Field(64, ge=16, le=256, multiple_of=16)
    max_model_len: int = Field(4096, ge=64)
    max_num_seqs: int = Field(16, ge=1, le=1024)
    max_num_batched_tokens: int = Field(8192, ge=64)
    max_logprobs: int = Field(32, ge=1, le=128)
    enable_prefix_caching: bool = True
    block_size: int = Field(32, ge=32, multiple_of=32)
    kv_cache_gib: float = Field(1.0, gt=0)
    threads: int | None = Field(None, ge=1)
    compile: Literal["off", "helpers", "full"] = "off"
    in_process: bool = True
    share_model_across_processes: bool = False
    joined_label_sets: bool = True
    canvas_only_last_layer: bool = True
    require_amx: bool = False

    @model_validator(mode="after")
    def _widths_fit(self) -> Build:
        if self.canvas_length >= self.max_model_len:
            raise ValueError(
                f"canvas_length {self.canvas_length} leaves no room for a prompt in "
                f"max_model_len {self.max_model_len}"
            )
        canvases = self.max_num_seqs * self.canvas_length
        if not self.single_pass_reads and canvases > self.max_num_batched_tokens:
            # vLLM's scheduler would denoise a part of a canvas as if it were the whole.
            raise ValueError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} cannot hold max_num_seqs x "
                f"canvas_length = {canvases} tokens; raise it, or lower one of the two"
            )
        return self


def load_build(path: str | Path) -> Build:
    """Read a build from YAML; raises `pydantic.ValidationError` listing every problem."""
    path = Path(path)
    data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Build.model_validate({"name": path.stem, **(data or {})})
