"""Synthetic healthcare conversations with known answers: seeded, fictional, pure Python.

The sentences live in `phrases/*.yaml`. Every sentence, cue and a part of the fillers belongs to one
of two splits, so that held-out conversations are worded in ways training never showed.

>>> corpus = Corpus(split="heldout")
>>> corpus.conversation(7) == corpus.conversation(7)
True
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from engine.tiny.typing_noise import roughen

Split = Literal["train", "heldout"]
PHRASES = Path(__file__).parent / "phrases"
TOPICS = ("billing", "symptoms", "scheduling")
URGENCIES = ("routine", "soon", "urgent")
HELDOUT_SENTENCES = 6  # one sentence in so many is held out
HELDOUT_FILLERS = 10
FRAME_SHARE = 0.5
MATTER_SHARE = 0.4
DECLINE_SHARE = 0.12  # of those who ask for no human say so
MENTION_SHARE = 0.18  # speak of people without asking for one, whether or not they also ask
SKIPPED_WORDS = (0.0, 0.04, 0.08, 0.15)  # in training, so that no single word decides
LONG_SHARE = 0.03  # conversations that run to several hundred tokens
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Labels:
    """What a conversation is about. `frustration` runs from 1 (calm) to 5 (furious)."""

    topic: str
    urgency: str
    asks_for_human: bool
    frustration: int


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """A conversation, its labels and the seed it came from; `messages` holds (role, content)."""

    seed: int
    messages: tuple[tuple[str, str], ...]
    labels: Labels


class Corpus:
    """An endless, random-access supply of conversations: `conversation(seed)` is a pure function.

    `split` chooses the sentences; both splits share the fillers except for one in
    `HELDOUT_FILLERS`, which only held-out conversations use.
    """

    def __init__(self, split: Split = "train", phrases: Path = PHRASES) -> None:
        self.split: Split = split
        read = dict(_read(phrases))
        self._fillers: dict[str, list[str]] = {
            name: [
                str(v)
                for i, v in enumerate(values)
                if split == "heldout" or not _held(i, HELDOUT_FILLERS)
            ]
            for name, values in read.pop("fillers").items()
        }
        self._fillers["common"] = (phrases / "common_words.txt").read_text(encoding="utf-8").split()
        around = read.pop("around")  # carries no label, so both splits share it
        self._phrases: dict[str, Any] = {name: self._choose(tree) for name, tree in read.items()}
        self._phrases["around"] = around

    def _choose(self, tree: Any) -> Any:
        if isinstance(tree, Mapping):
            return {key: self._choose(value) for key, value in tree.items()}
        return [
            sentence
            for i, sentence in enumerate(tree)
            if _held(i, HELDOUT_SENTENCES) == (self.split == "heldout")
        ]

    def conversation(self, seed: int) -> LabelledConversation:
        """The conversation of this seed, 1 to 12 messages, last one by the user."""
        rng = random.Random(f"{self.split}/{seed}")
        labels = draw_labels(rng)
        sentences = self._user_sentences(rng, labels)
        messages = self._dialogue(rng, labels, sentences)
        skipped = rng.choice(SKIPPED_WORDS) if self.split == "train" else 0.0
        return LabelledConversation(seed, tuple(roughen(rng, messages, skipped)), labels)

    def say(self, rng: random.Random, *path: str | int) -> str:
        """One sentence from the given place in the phrases, alternatives and slots filled."""
        node: Any = self._phrases
        for key in path:
            node = node[key]
        return self._expand(rng, str(rng.choice(node)))

    def _cue(self, rng: random.Random, kind: str, value: str | int) -> str:
        """A cue of frustration, urgency or the wish for a human: a sentence or a shared frame."""
        if rng.random() < FRAME_SHARE:
            if kind == "human":
                return self.say(rng, "cues", "person_frames", value)
            frames, slot = {
                "urgency": ("time_frames", "when"),
                "frustration": rng.choice(
                    (("feeling_frames", "feeling"), ("verdict_frames", "verdict"))
                ),
            }[kind]
            frame = str(rng.choice(self._phrases["cues"][frames]))
            return self._expand(rng, frame.replace(f"{{{slot}}}", f"{{{slot}_{value}}}"))
        return self.say(rng, "cues", kind, value)

    def _core(self, rng: random.Random, topic: str, urgency: str) -> str:
        """A sentence that carries both topic and urgency."""
        if topic == "symptoms":
            return self._matter(rng, topic, urgency, f"symptoms_{urgency}")
        return self.say(rng, topic, urgency)

    def _matter(self, rng: random.Random, topic: str, kind: str, matter: str) -> str:
        """A sentence of the topic, or a frame of all topics around what it is about."""
        if rng.random() >= MATTER_SHARE:
            return self.say(rng, topic, kind)
        frame = str(rng.choice(self._phrases["matters"]["frames"]))
        return self._expand(rng, frame.replace("{matter}", f"{{matter_{matter}}}"))

    def _expand(self, rng: random.Random, text: str) -> str:
        while match := _GROUP.search(text):
            choice = rng.choice(match.group(1).split("|"))
            text = text[: match.start()] + choice + text[match.end() :]
        while _SLOT.search(text):  # what fills a slot may have slots
            text = _SLOT.sub(lambda match: self._fill(rng, match.group(1)), text)
        text = re.sub(r" +([.,!?])", r"\1", re.sub(r" {2,}", " ", text)).strip()
        return text[:1].upper() + text[1:] if rng.random() < 0.9 else text

    def _fill(self, rng: random.Random, name: str) -> str:
        if name == "number":
            return str(rng.randint(1000, 999999))
        if name == "age":
            return str(rng.randint(18, 90))
        if name == "day":
            return str(rng.randint(1, 28))
        return rng.choice(self._fillers[name])

    def _user_sentences(self, rng: random.Random, labels: Labels) -> list[str]:
        """What the user has to say, in order; the first sentences carry topic and urgency."""
        topic, urgency = labels.topic, labels.urgency
        core: list[str] = []
        generic = topic != "symptoms" and rng.random() < 0.55
        if generic:
            core.append(self._matter(rng, topic, "any", topic))
            if urgency != "routine" or rng.random() < 0.6:
                core.append(self._cue(rng, "urgency", urgency))
        else:
            core.append(self._core(rng, topic, urgency))
            if rng.random() < 0.2:
                core.append(self._cue(rng, "urgency", urgency))
        if rng.random() < 0.15 and topic != "symptoms":
            core.append(self._matter(rng, topic, "any", topic))
        rng.shuffle(core)
        extras = self._extras(rng, labels)
        if rng.random() < 0.3:  # sometimes the point comes last
            return extras + core
        cut = rng.randint(0, len(extras))
        return extras[:cut] + core + extras[cut:] if rng.random() < 0.4 else core + extras

    def _extras(self, rng: random.Random, labels: Labels) -> list[str]:
        extras: list[str] = []
        level = labels.frustration
        if level > 1 or rng.random() < 0.4:
            for _ in range(2 if level > 1 and rng.random() < 0.4 else 1):
                extras.append(self._cue(rng, "frustration", level))
        if labels.asks_for_human:
            extras.append(self._cue(rng, "human", "asks"))
        elif rng.random() < DECLINE_SHARE:
            extras.append(self._cue(rng, "human", "declines"))
        if rng.random() < MENTION_SHARE:
            extras.append(self._cue(rng, "human", "mentions"))
        if rng.random() < 0.2:
            other = rng.choice([topic for topic in TOPICS if topic != labels.topic])
            extras.append(self.say(rng, "around", "dropped", other))
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            extras.append(self.say(rng, "around", "detail"))
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            extras.append(self.say(rng, "around", "small_talk"))
        rng.shuffle(extras)
        return extras

    def _dialogue(
        self, rng: random.Random, labels: Labels, sentences: list[str]
    ) -> list[tuple[str, str]]:
        """Spread the sentences over the user's turns and let the assistant speak in between."""
        long = rng.random() < LONG_SHARE
        turns = 6 if long else rng.choice((1, 1, 1, 2, 2, 3, 4, 6))
        cuts = sorted(rng.randint(0, len(sentences)) for _ in range(turns - 1))
        parts = [sentences[a:b] for a, b in zip([0, *cuts], [*cuts, len(sentences)], strict=True)]
        messages: list[tuple[str, str]] = []
        for i, part in enumerate(parts):
            if i or rng.random() < 0.1:
                messages.append(("assistant", self._assistant(rng, labels.topic, long)))
            if not part:
                place = "opening" if i == 0 else "user_filler"
                part = [self.say(rng, "around", place)]
            elif i == 0 and rng.random() < 0.4:
                part = [
                    rng.choice(self._phrases["around"]["greeting"])
                    + rng.choice((",", "!", ".", "")),
                    *part,
                ]
            messages.append(("user", " ".join(part)))
        return messages

    def _assistant(self, rng: random.Random, topic: str, long: bool) -> str:
        said = [self.say(rng, "around", "assistant")]
        if rng.random() < 0.3:
            # Mostly on the topic, sometimes beside it: what the assistant says decides nothing.
            said.append(
                self.say(
                    rng,
                    "around",
                    "assistant_topic",
                    topic if rng.random() < 0.6 else rng.choice(TOPICS),
                )
            )
        if long or rng.random() < 0.1:
            repeats = rng.randint(1, 3) if long else 1
            said += [self.say(rng, "around", "assistant_long") for _ in range(repeats)]
        return " ".join(said)


@cache
def _read(phrases: Path) -> Mapping[str, Any]:
    files = sorted(phrases.glob("*.yaml"))
    return {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}


def draw_labels(rng: random.Random) -> Labels:
    """Labels as balanced as a demonstration needs them: every option is common."""
    return Labels(
        topic=rng.choice(TOPICS),
        urgency=rng.choice(URGENCIES),
        asks_for_human=rng.random() < 0.42,
        frustration=rng.choices((1, 2, 3, 4, 5), weights=(28, 18, 18, 18, 18))[0],
    )


def facts_of(labels: Labels) -> tuple[int, ...]:
    """One entry for every value a label can have: 1 for those of these labels, else 0."""
    return (
        *(int(labels.topic == topic) for topic in TOPICS),
        *(int(labels.urgency == urgency) for urgency in URGENCIES),
        int(labels.asks_for_human),
        *(int(labels.frustration == level) for level in range(1, 6)),
    )


def _held(index: int, period: int) -> bool:
    return index % period == period - 1
