"""The fake engine keeps the contract, and dies on request."""

from __future__ import annotations

import pytest

from engine.builds import Build
from engine.fake import FakeEngine
from engine.reads import EngineDeadError
from tests.engine.contract import EngineContract, make_read

VOCAB_SIZE = 262_144


@pytest.fixture(params=[False, True], ids=["two_step", "single_pass"])
def engine(request: pytest.FixtureRequest) -> FakeEngine:
    return FakeEngine(Build(name="fake", single_pass_reads=request.param), VOCAB_SIZE)


@pytest.fixture
def vocab_size() -> int:
    return VOCAB_SIZE


class TestFakeEngine(EngineContract):
    pass


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_dead_engine_stays_dead(end: str) -> None:
    engine = FakeEngine(Build(name="fake"))
    read = make_read("r", VOCAB_SIZE)
    engine.read([read])
    getattr(engine, end)()
    for _ in range(2):
        with pytest.raises(EngineDeadError):
            engine.read([read])
