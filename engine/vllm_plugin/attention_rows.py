"""Split the rows of joined reads into a prompt row and a canvas row: plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """The rows the attention kernel sees, in token order.

    Attributes:
        source: int64 [rows], the batch row each one comes from.
        query_start_loc: int32 [rows + 1], where its tokens begin.
        seq_lens: int32 [rows], how far along the sequence it may look.
        causal: int32 [rows], 1 where each token sees only itself and those before it.
    """

    source: npt.NDArray[np.int64]
    query_start_loc: Ints
    seq_lens: Ints
    causal: Ints


def split_rows(
    query_lens: npt.NDArray[np.integer],
    seq_lens: npt.NDArray[np.integer],
    widths: npt.NDArray[np.integer],
    causal: npt.NDArray[np.bool_],
) -> AttentionRows:
    """Split every row with a width into prompt (causal) and canvas (not), keep the others.

    All arguments are [batch rows]: tokens in this step, sequence length after it, canvas width of
    a joined row else 0, and whether an unjoined row is causal.

    >>> rows = split_rows(*map(np.array, ([5, 7], [9, 7], [0, 4], [True, True])))
    >>> rows.query_start_loc.tolist(), rows.seq_lens.tolist(), rows.causal.tolist()
    ([0, 5, 8, 12], [9, 3, 7], [1, 1, 0])
    """
    joined = widths > 0
    source = np.repeat(np.arange(len(query_lens)), 1 + joined)
    is_canvas = np.concatenate([[False], source[1:] == source[:-1]])
    is_prompt = joined[source] & ~is_canvas
    lengths = np.where(is_canvas, widths[source], query_lens[source])
    lengths = np.where(is_prompt, lengths - widths[source], lengths)
    reach = np.where(is_prompt, seq_lens[source] - widths[source], seq_lens[source])
    sees_back_only = np.where(joined[source], is_prompt, causal[source])
    return AttentionRows(
        source=source.astype(np.int64),
        query_start_loc=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        seq_lens=reach.astype(np.int32),
        causal=sees_back_only.astype(np.int32),
    )
