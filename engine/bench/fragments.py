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

_BUDDY_INFO = Path("/proc/buddyinfo")


def fragmented_bytes(buddy_info: str) -> tuple[int, int]:
    """Free memory in blocks below the largest size there is, and all free memory.

    `buddy_info` is the text of `/proc/buddyinfo`: for each zone of memory, how many blocks of 1, 2,
    4, ... pages are free.
    """
    small = free = 0
    for line in buddy_info.splitlines():
        _, *counts = line.partition(" zone ")[2].split()
        sizes = [int(count) * mmap.PAGESIZE << order for order, count in enumerate(counts)]
        small += sum(sizes[:-1])
        free += sum(sizes)
    return small, free


@contextmanager
def held_fragments() -> Iterator[int]:
    """Hold the fragments of free memory, at most half of what is free; yields how many bytes.

    None are held where the kernel does not say what is free.
    """
    if not _BUDDY_INFO.exists():
        yield 0
        return
    small, free = fragmented_bytes(_BUDDY_INFO.read_text(encoding="ascii"))
    size = max(min(small, free // 2), mmap.PAGESIZE)
    with mmap.mmap(-1, size) as held:
        held.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, size, mmap.PAGESIZE):
            held[page] = 1
        yield size
