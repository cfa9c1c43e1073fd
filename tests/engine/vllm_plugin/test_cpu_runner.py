"""Model Runner V2 without triton-cpu: what is overridden, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from engine.vllm_plugin import cpu_runner


class Platform:
    registered = 0

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        cls.registered += 1


@pytest.fixture
def vllm_config_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    import vllm.config.vllm as module

    monkeypatch.setattr(module, "HAS_TRITON", False)
    return module


def test_a_working_triton_is_left_alone(
    vllm_config_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.triton_utils

    monkeypatch.setattr(vllm.triton_utils, "HAS_TRITON", True)
    theirs = Platform.__dict__["register_triton_kernel_overrides"]
    cpu_runner.install(Platform)
    assert vllm_config_module.HAS_TRITON is False
    assert Platform.__dict__["register_triton_kernel_overrides"] is theirs


def test_kernels_follow_vllms_own(vllm_config_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm.triton_utils

    monkeypatch.setattr(vllm.triton_utils, "HAS_TRITON", False)

    class Own(Platform):
        pass

    cpu_runner.install(Own)
    cpu_runner.install(Own)  # plugins may be loaded again
    assert vllm_config_module.HAS_TRITON is True
    ours = []
    monkeypatch.setattr(cpu_runner, "register_kernels", lambda: ours.append(Own.registered))
    Own.register_triton_kernel_overrides()
    assert ours == [1]


def test_next_power_of_2() -> None:
    assert [cpu_runner.next_power_of_2(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]
