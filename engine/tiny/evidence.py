"""What single words say about the labels: a head start for the embeddings.

With so little training the model would spend most of it finding out that `invoice` speaks of
billing. Counting tells that in seconds; training then learns how to read.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from engine.tiny.corpus import LabelledConversation, Labels

_PRIOR_COUNT = 4.0
_LARGEST = 3.0


def word_evidence(
    conversations: Iterable[LabelledConversation],
    encode: Callable[[str], Sequence[int]],
    vocab_size: int,
) -> list[list[float]]:
    """Log odds [vocabulary][label values], clipped; 0 for a token that says nothing.

    The entry of a token and a value is how much likelier the value is where the user wrote the
    token; values are those of all four labels, in a fixed order.
    """
    seen: Counter[int] = Counter()
    together: defaultdict[int, Counter[str]] = defaultdict(Counter)
    values: Counter[str] = Counter()
    total = 0
    for conversation in conversations:
        total += 1
        names = _values(conversation.labels)
        values.update(names)
        said = " ".join(content for role, content in conversation.messages if role == "user")
        for token in set(encode(said)):
            seen[token] += 1
            together[token].update(names)
    order = sorted(values)
    return [
        [_log_odds(together[token][v], seen[token], values[v] / total) for v in order]
        for token in range(vocab_size)
    ]


def _log_odds(joint: int, count: int, share: float) -> float:
    expected = (joint + _PRIOR_COUNT * share) / (count + _PRIOR_COUNT)
    return max(-_LARGEST, min(_LARGEST, math.log(expected / share))) if expected else -_LARGEST


def _values(labels: Labels) -> tuple[str, str, str, str]:
    return (
        f"topic {labels.topic}",
        f"urgency {labels.urgency}",
        f"human {labels.asks_for_human}",
        f"frustration {labels.frustration}",
    )
