"""DiffusionGemma whose per-step state knows single-pass reads and joined label sets."""

from __future__ import annotations

from typing import Any

from vllm.model_executor.models.diffusion_gemma import (
    DiffusionGemmaForConditionalGeneration,
    DiffusionGemmaModelState,
)

from engine.vllm_plugin.model_state import OnepassModelState
from engine.vllm_plugin.settings import Settings, read_settings


class OnepassDiffusionGemma(DiffusionGemmaForConditionalGeneration):  # type: ignore[misc]
    """vLLM's model; only the class of its per-step state differs, and only when asked for."""

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self._onepass_settings = read_settings(vllm_config.additional_config)

    def get_model_state_cls(self) -> type[DiffusionGemmaModelState]:
        off = self._onepass_settings == Settings()
        state_class: type[DiffusionGemmaModelState] = (
            DiffusionGemmaModelState if off else OnepassModelState
        )
        return state_class
