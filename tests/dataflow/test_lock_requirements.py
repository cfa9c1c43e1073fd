"""The image's requirements: every package pinned and hashed, and at the lock's version."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dataflow.lock_requirements import LOCK, TARGET, requirements

LINE = re.compile(r"^([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}$")


def lines() -> list[str]:
    return [line for line in TARGET.read_text().splitlines() if not line.startswith("#")]


def versions() -> dict[str, str]:
    return dict(match.groups() for match in map(LINE.match, lines()) if match)


def locked() -> dict[str, str]:
    pairs = (line.split("==") for line in LOCK.read_text().splitlines() if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_line_is_pinned_and_hashed() -> None:
    assert len(lines()) == len(versions()) > 200


def test_versions_are_the_locks() -> None:
    lock = {**locked(), "setuptools": versions()["setuptools"]}  # `pip freeze` leaves it out
    different = {
        name: (version, lock.get(canonicalize_name(name)))
        for name, version in versions().items()
        if version.split("+")[0] != lock.get(canonicalize_name(name))
    }
    assert not different


def test_everything_the_program_needs_is_there() -> None:
    """Walks the requirements of `onepass[worker]` as the installed packages state them."""
    found = {canonicalize_name(name) for name in versions()}
    seen: set[tuple[str, str]] = set()
    wanted = [("onepass", "worker")]
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                child = canonicalize_name(needed.name)
                assert child in found, f"{name} needs {child}"
                wanted += [(child, part) for part in ("", *needed.extras)]
    assert len(seen) > 200


def test_a_package_without_a_hash_is_refused() -> None:
    item = {"metadata": {"name": "x", "version": "1"}, "download_info": {"dir_info": {}}}
    with pytest.raises(ValueError, match="x 1: pip reports no hash"):
        requirements({"install": [item]})
