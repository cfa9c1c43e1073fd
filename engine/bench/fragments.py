"""The same kind of memory for every engine of a comparison.

The kernel hands out the smallest free blocks first, which lie scattered over the machine. Whoever
starts on those reaches memory up to three times slower, as long as it lives, than whoever starts on
large blocks: of equal engines the first was 10 to 24% slower than the others. So a comparison takes
the small blocks before its engines start, and keeps them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.machine import read_machine

_BUDDY_INFO = Path("/proc/buddyinfo")


def fragmented_bytes(buddy_info: str) -> int:
    """Free memory in blocks below the largest size there is.

    `buddy_info` is the text of `/proc/buddyinfo`: for each zone of memory, how many blocks of 1, 2,
    4, ... pages are free.
    """
    found = 0
    for line in buddy_info.splitlines():
        _, *counts = line.partition(" zone ")[2].split()
        found += sum(int(n) * mmap.PAGESIZE << order for order, n in enumerate(counts[:-1]))
    return found


@contextmanager
def held_fragments(at_most: int | None = None) -> Iterator[int]:
    """Hold the fragments of free memory; yields how many bytes.

    `at_most` bytes, by default a quarter of what this process may still use; none where the kernel
    does not say what is free.
    """
    if not _BUDDY_INFO.exists():
        yield 0
        return
    fragments = fragmented_bytes(_BUDDY_INFO.read_text(encoding="ascii"))
    if at_most is None:
        at_most = int(read_machine().memory_available_gib * 2**30) // 4
    size = max(min(fragments, at_most), mmap.PAGESIZE)
    with mmap.mmap(-1, size) as held:
        held.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, size, mmap.PAGESIZE):
            held[page] = 1
        yield size
