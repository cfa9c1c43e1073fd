"""torchvision and its like may be built for another torch: before anything imports vLLM."""

from __future__ import annotations

from engine.vllm_plugin import torchvision_fix

torchvision_fix.install()
