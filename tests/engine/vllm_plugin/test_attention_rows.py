"""Row splitting against a token-by-token statement of who sees whom."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.vllm_plugin.attention_rows import AttentionRows, split_rows

ROWS = st.lists(
    st.tuples(
        st.integers(1, 9),  # prompt tokens of a joined row, all tokens of another
        st.integers(0, 9),  # canvas width; 0: not joined
        st.integers(0, 20),  # computed before
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def visible(rows: AttentionRows) -> list[tuple[int, int]]:
    """(batch row, keys visible) of every token, as the attention kernel derives it."""
    found = []
    for i, source in enumerate(rows.source.tolist()):
        length = int(rows.query_start_loc[i + 1] - rows.query_start_loc[i])
        reach = int(rows.seq_lens[i])
        for token in range(length):
            found.append((source, reach - length + token + 1 if rows.causal[i] else reach))
    return found


@given(ROWS)
def test_prompt_is_blind_to_the_canvas_and_the_canvas_sees_all(
    batch: list[tuple[int, int, int, bool]],
) -> None:
    tokens, widths, computed, causal = (np.array(column) for column in zip(*batch, strict=True))
    rows = split_rows(tokens + widths, computed + tokens + widths, widths, causal)
    expected = []
    for row, (count, width, before, is_causal) in enumerate(batch):
        end = before + count + width
        if width:
            expected += [(row, before + i + 1) for i in range(count)]
            expected += [(row, end)] * width
        else:
            expected += [(row, before + i + 1 if is_causal else end) for i in range(count)]
    assert visible(rows) == expected
    assert rows.query_start_loc.dtype == rows.seq_lens.dtype == rows.causal.dtype == np.int32
