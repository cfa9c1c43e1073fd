from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engine.builds import Build
from engine.environment import prepare, threads_of
from engine.machine import usable_cpus


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def _build(**settings: object) -> Build:
    return Build.model_validate({"name": "b", **settings})


def test_threads_are_the_builds_or_every_core() -> None:
    assert threads_of(_build(threads=3)) == 3
    assert threads_of(_build()) == usable_cpus()


def test_the_build_decides_over_the_environment() -> None:
    os.environ.update(
        {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
            "OMP_NUM_THREADS": "99",
            "VLLM_CPU_KVCACHE_SPACE": "40",
            "TORCH_COMPILE_DISABLE": "0",
        }
    )
    prepare(_build(compile="off"))
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["OMP_NUM_THREADS"] == str(usable_cpus())
    assert os.environ["TORCH_COMPILE_DISABLE"] == "1"
    assert "VLLM_CPU_KVCACHE_SPACE" not in os.environ
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_the_user_decides_about_logs_and_waiting() -> None:
    os.environ.update({"VLLM_LOGGING_LEVEL": "DEBUG", "OMP_WAIT_POLICY": "ACTIVE"})
    prepare(_build())
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    del os.environ["VLLM_LOGGING_LEVEL"], os.environ["OMP_WAIT_POLICY"]
    prepare(_build())
    assert os.environ["VLLM_LOGGING_LEVEL"] == "ERROR"
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.parametrize(
    ("name", "default"), [("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"), ("THP_MEM_ALLOC_ENABLE", "1")]
)
def test_the_user_decides_about_memory(name: str, default: str) -> None:
    for given, kept in ((None, default), ("9", "9")):
        os.environ.pop(name, None)
        if given:
            os.environ[name] = given
        prepare(_build())
        assert os.environ[name] == kept


def test_a_child_gets_as_many_cores_as_threads() -> None:
    prepare(_build(in_process=False, threads=1))
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1"
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == str(min(os.sched_getaffinity(0)))


@pytest.mark.parametrize("imported_first", [False, True])
def test_torch_runs_the_threads_of_the_build(imported_first: bool) -> None:
    """Also where something loaded OpenMP, with another number, before the engine was built."""
    code = f"""
if {imported_first}:
    import torch
import threading
from engine.builds import Build
from engine.environment import prepare, settle_threads
prepare(Build.model_validate({{"name": "b", "threads": 1}}))
import torch
torch.set_num_threads = lambda threads: None  # vLLM's CPU worker does so
seen = []
def work():
    settle_threads(1)
    seen.append(torch.get_num_threads())
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert seen == [1], seen
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
