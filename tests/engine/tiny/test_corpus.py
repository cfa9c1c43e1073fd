"""The synthetic corpus: seeded, split by wording, and labelled in balance."""

from collections import Counter

import yaml

from engine.tiny.corpus import PHRASES, TOPICS, URGENCIES, Corpus


def test_a_seed_always_gives_the_same_conversation() -> None:
    first, second = Corpus("train"), Corpus("train")
    assert [first.conversation(s) for s in (5, 3, 9)] == [second.conversation(s) for s in (5, 3, 9)]
    assert first.conversation(3) != first.conversation(4)


def test_conversations_have_one_to_twelve_messages_and_end_with_the_user() -> None:
    corpus = Corpus("train")
    conversations = [corpus.conversation(seed) for seed in range(400)]
    assert {role for c in conversations for role, _ in c.messages} == {"user", "assistant"}
    assert all(c.messages[-1][0] == "user" for c in conversations)
    assert all(content.strip() for c in conversations for _, content in c.messages)
    lengths = Counter(len(c.messages) for c in conversations)
    assert min(lengths) == 1
    assert max(lengths) == 12


def test_every_label_is_common() -> None:
    labels = [Corpus("heldout").conversation(seed).labels for seed in range(600)]
    for attribute, values in (
        ("topic", TOPICS),
        ("urgency", URGENCIES),
        ("asks_for_human", (True, False)),
        ("frustration", (1, 2, 3, 4, 5)),
    ):
        counts = Counter(getattr(label, attribute) for label in labels)
        assert set(counts) == set(values)
        assert min(counts.values()) > 60


def test_held_out_wordings_are_never_used_for_training() -> None:
    train, heldout = Corpus("train"), Corpus("heldout")
    for name in ("billing", "symptoms", "scheduling", "cues"):
        everything = yaml.safe_load((PHRASES / f"{name}.yaml").read_text(encoding="utf-8"))
        ours, theirs = set(_leaves(train._phrases[name])), set(_leaves(heldout._phrases[name]))
        assert ours.isdisjoint(theirs)
        assert ours | theirs == set(_leaves(everything))
        assert len(theirs) > 0.1 * len(ours)


def test_sentences_come_out_whole() -> None:
    for split in ("train", "heldout"):
        for seed in range(300):
            for _, content in Corpus(split).conversation(seed).messages:
                assert not set(content) & set("[]{}|")


def _leaves(tree: object) -> list[str]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    assert isinstance(tree, list)
    return [str(leaf) for leaf in tree]
