"""Where a build's weights are, and what identifies them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine.tiny

_CHUNK_BYTES = 2**22
_ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"


class CheckpointError(RuntimeError):
    """The checkpoint cannot be used; the message says which file is wrong and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder with `config.json`, safetensors weights and `tokenizer.json`.

    Attributes:
        source: as the build wrote it.
        path: the local folder.
        config: content of `config.json`.
    """

    source: str
    path: Path
    config: dict[str, Any]

    @property
    def vocab_size(self) -> int:
        text_config: dict[str, Any] = self.config.get("text_config", self.config)
        return int(text_config["vocab_size"])

    @property
    def weight_files(self) -> list[Path]:
        return sorted(self.path.glob("*.safetensors"))

    @property
    def size_bytes(self) -> int:
        """Size of the weights."""
        return sum(f.stat().st_size for f in self.weight_files)

    def model_sha256(self) -> str:
        """Of names and contents of configuration and weights."""
        total = hashlib.sha256()
        configs = [self.path / n for n in ("config.json", "generation_config.json")]
        for file in [f for f in configs if f.exists()] + self.weight_files:
            total.update(f"{file.name} {file_sha256(file)}\n".encode())
        return total.hexdigest()

    def tokenizer_sha256(self) -> str:
        return file_sha256(self.path / "tokenizer.json")


def resolve(model: str, *, weights: bool = True) -> Checkpoint:
    """The checkpoint a build names: `tiny`, a local folder, or a `gs://` folder (staged first).

    With `weights=False` weights may be missing, and are not fetched: tokenizer and configuration
    are enough to plan.

    Raises `CheckpointError` when the folder lacks something the engine needs, and
    `engine.staging.StagingError` when it cannot be staged.
    """
    if model == "tiny":
        return _checked(model, Path(engine.tiny.__file__).parent, weights)
    if model.startswith("gs://"):
        from engine.staging import stage

        return _checked(model, stage(model, weights=weights), weights)
    if "://" in model:
        raise CheckpointError(f"model {model!r}: use tiny, a local folder or a gs:// folder")
    return _checked(model, Path(model).expanduser().resolve(), weights)


def _checked(source: str, path: Path, weights: bool) -> Checkpoint:
    if not path.is_dir():
        raise CheckpointError(f"model {source!r}: folder {path} does not exist")
    needed = ("config.json", "generation_config.json", "tokenizer.json")
    missing = [name for name in needed if not (path / name).is_file()]
    if weights and not any(path.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise CheckpointError(
            f"model {source!r}: {path} lacks {', '.join(missing)}; a checkpoint needs its "
            "configuration, safetensors weights and tokenizer in one folder"
        )
    try:
        config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"model {source!r}: {path}/config.json: {error}") from error
    architectures = config.get("architectures") or []
    if _ARCHITECTURE not in architectures:
        raise CheckpointError(
            f"model {source!r}: architectures are {architectures}; structured reads need "
            f"{_ARCHITECTURE}"
        )
    return Checkpoint(source, path, config)


def file_sha256(file: Path) -> str:
    """SHA-256 of a file, remembered per path, size and modification time.

    Weights of tens of gigabytes take a minute to hash; engines of one machine start often.
    """
    stat = file.stat()
    key = f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}"
    memory = _hash_memory() / hashlib.sha256(key.encode()).hexdigest()
    if memory.exists():
        return memory.read_text(encoding="ascii")
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    _remember(memory, digest.hexdigest())
    return digest.hexdigest()


def _hash_memory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "onepass" / "sha256"


def _remember(memory: Path, digest: str) -> None:
    """Write whole or not at all; a read-only home only costs the next start its time."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=memory.parent, delete=False) as stream:
            stream.write(digest)
        Path(stream.name).replace(memory)
    except OSError:
        return
