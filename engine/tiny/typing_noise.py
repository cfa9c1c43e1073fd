"""How people type: lost capitals, missing punctuation, slips of the finger, odd spacing."""

from __future__ import annotations

import random
from collections.abc import Iterable

_NEIGHBOURS = {
    "a": "sq", "e": "wr", "i": "uo", "o": "ip", "u": "yi", "n": "bm", "t": "ry", "s": "ad",
    "r": "et", "l": "k", "c": "xv", "d": "sf", "m": "n", "h": "gj", "p": "o",
}  # fmt: skip


def roughen(
    rng: random.Random, messages: Iterable[tuple[str, str]], skipped: float = 0.0
) -> list[tuple[str, str]]:
    """Type the user's messages the way one person would; the assistant's stay as they are.

    `skipped` is the share of words that the user leaves out.
    """
    habits = {
        "lower": rng.random() < 0.25,
        "upper": rng.random() < 0.04,
        "bare": rng.random() < 0.15,
        "lines": rng.random() < 0.08,
        "smiley": rng.random() < 0.04,
    }
    slip_rate = rng.choice((0.0, 0.0, 0.0, 0.004, 0.015))
    return [
        (role, _type(rng, _skip(rng, said, skipped), habits, slip_rate) if role == "user" else said)
        for role, said in messages
    ]


def _skip(rng: random.Random, text: str, share: float) -> str:
    if not share:
        return text
    words = text.split(" ")
    return " ".join(word for word in words if rng.random() >= share) or words[0]


def _type(rng: random.Random, text: str, habits: dict[str, bool], slip_rate: float) -> str:
    if habits["lower"]:
        text = text.lower()
    elif habits["upper"]:
        text = text.upper()
    if habits["bare"]:
        text = text.replace(".", "").replace(",", "").replace("'", "")
    if habits["lines"]:
        text = text.replace(". ", ".\n")
    if habits["smiley"]:
        text += rng.choice((" :)", " 🙂", "...", " 😊", " xx"))
    if slip_rate:
        text = "".join(_slip(rng, ch) if rng.random() < slip_rate else ch for ch in text)
    return text


def _slip(rng: random.Random, ch: str) -> str:
    """One finger slip: dropped, doubled, or the key beside it."""
    if not ch.isalpha():
        return ch
    kind = rng.random()
    if kind < 0.35:
        return ""
    if kind < 0.6:
        return ch * 2
    return rng.choice(_NEIGHBOURS.get(ch.lower(), ch))
