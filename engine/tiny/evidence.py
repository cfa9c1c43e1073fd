"""What single words say about the labels: a head start for the embeddings.

With so little training the model would spend most of it finding out that `invoice` speaks of
billing. Counting tells that in seconds; training then learns how to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from engine.tiny.corpus import LabelledConversation, facts_of

_PRIOR_COUNT = 4.0
_LARGEST = 3.0


def word_evidence(
    conversations: Iterable[LabelledConversation],
    encode: Callable[[str], Sequence[int]],
    vocab_size: int,
) -> list[list[float]]:
    """Log odds [vocabulary][facts], clipped; near 0 for a token that says nothing.

    How much likelier each fact of `facts_of` is where the user wrote the token.
    """
    seen = [0] * vocab_size
    together: list[list[int]] | None = None
    holds: list[int] = []
    total = 0
    for conversation in conversations:
        facts = facts_of(conversation.labels)
        if together is None:
            together, holds = [[0] * len(facts) for _ in range(vocab_size)], [0] * len(facts)
        total += 1
        true = [index for index, fact in enumerate(facts) if fact]
        for index in true:
            holds[index] += 1
        said = " ".join(content for role, content in conversation.messages if role == "user")
        for token in set(encode(said)):
            seen[token] += 1
            for index in true:
                together[token][index] += 1
    if together is None:
        raise ValueError("no conversations to count words in")
    shares = [count / total for count in holds]
    return [
        [_log_odds(joint, count, share) for joint, share in zip(row, shares, strict=True)]
        for row, count in zip(together, seen, strict=True)
    ]


def _log_odds(joint: int, count: int, share: float) -> float:
    if not share:
        return 0.0
    likely = (joint + _PRIOR_COUNT * share) / (count + _PRIOR_COUNT)
    return max(-_LARGEST, min(_LARGEST, math.log(likely / share)))
