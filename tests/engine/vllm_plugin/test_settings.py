from __future__ import annotations

from typing import Any

import pytest

from engine.vllm_plugin.settings import Settings, read_settings
from engine.vllm_plugin.versions import UnverifiedVllmError, refuse_unverified


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEPASS_VLLM", raising=False)


def test_off_by_default() -> None:
    assert read_settings({}) == read_settings(None) == Settings(False, False)


def test_additional_config_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEPASS_VLLM", '{"joined_label_sets": true}')
    assert read_settings({"other": 1}) == Settings(joined_label_sets=True)
    found = read_settings({"onepass": {"single_pass_reads": True}})
    assert found == Settings(single_pass_reads=True)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"single_pass": True}, "known are single_pass_reads, joined_label_sets"),
        ({"single_pass_reads": 1}, "use true or false"),
        (True, "use an object"),
    ],
)
def test_mistakes_are_named(value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_settings({"onepass": value})


def test_broken_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEPASS_VLLM", "single_pass_reads")
    with pytest.raises(ValueError, match="ONEPASS_VLLM='single_pass_reads' is not JSON"):
        read_settings({})


def test_only_verified_versions() -> None:
    refuse_unverified("0.32.0")
    refuse_unverified("0.32.0+cpu")
    for other in ("0.32.1", "0.31.0", "0.33.0rc1"):
        with pytest.raises(UnverifiedVllmError, match=f"vLLM {other}.*0.32.0 only"):
            refuse_unverified(other)
