"""What counts as a fragment, and that fragments are really held."""

from __future__ import annotations

import mmap

from engine.bench.fragments import fragmented_bytes, held_fragments
from engine.bench.worker import resident_gib

MIB = 2**20
NOISE = 16 * MIB  # what else the process takes meanwhile, and how coarsely the kernel counts
BUDDY_INFO = """\
Node 0, zone      DMA      1      0      3
Node 0, zone   Normal     10      5      2
"""


def test_all_but_the_largest_blocks_are_fragments() -> None:
    assert fragmented_bytes(BUDDY_INFO) == (1 + 10 + 5 * 2) * mmap.PAGESIZE


def test_fragments_are_held_until_the_end() -> None:
    before = resident_gib()
    with held_fragments(at_most=64 * MIB) as held:
        assert 0 < held <= 64 * MIB
        assert resident_gib() - before > (held - NOISE) / 2**30
    assert resident_gib() - before < NOISE / 2**30
