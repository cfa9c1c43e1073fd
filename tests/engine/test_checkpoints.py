from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.checkpoints import CheckpointError, file_sha256, resolve

ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"architectures": [ARCHITECTURE], "text_config": {"vocab_size": 512}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_local_folder(folder: Path) -> None:
    checkpoint = resolve(str(folder))
    assert checkpoint.path == folder
    assert checkpoint.source == str(folder)
    assert checkpoint.vocab_size == 512
    assert checkpoint.size_bytes == len(b"weights")


def test_hashes_follow_contents(folder: Path) -> None:
    checkpoint = resolve(str(folder))
    model, tokenizer = checkpoint.model_sha256(), checkpoint.tokenizer_sha256()
    assert checkpoint.model_sha256() == model
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert checkpoint.model_sha256() != model
    assert checkpoint.tokenizer_sha256() == tokenizer
    (folder / "tokenizer.json").write_text("{ }")
    assert checkpoint.tokenizer_sha256() != tokenizer


def test_a_file_is_hashed_once(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model.safetensors"
    file_sha256(weights)
    (remembered,) = (tmp_path / "cache" / "onepass" / "sha256").iterdir()
    remembered.write_text("from memory")
    assert file_sha256(weights) == "from memory"


def test_an_unwritable_cache_does_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "config.json"))
    assert file_sha256(folder / "model.safetensors") == file_sha256(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "lacks config.json"),
        ("generation_config.json", "lacks generation_config.json"),
        ("tokenizer.json", "lacks tokenizer.json"),
        ("model.safetensors", r"lacks \*.safetensors"),
    ],
)
def test_a_missing_file_is_named(folder: Path, name: str, message: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=message):
        resolve(str(folder))


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(CheckpointError, match="/no/such/folder does not exist"):
        resolve("/no/such/folder")


def test_another_architecture_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    with pytest.raises(CheckpointError, match="LlamaForCausalLM"):
        resolve(str(folder))


def test_broken_configuration_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        resolve(str(folder))


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(CheckpointError, match="s3://bucket/model"):
        resolve("s3://bucket/model")
