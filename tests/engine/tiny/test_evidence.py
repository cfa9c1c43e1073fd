"""What words say about labels, by counting."""

from engine.tiny.corpus import Corpus, LabelledConversation, Labels, facts_of
from engine.tiny.evidence import word_evidence

BILLING = Labels("billing", "soon", False, 1)
SYMPTOMS = Labels("symptoms", "soon", False, 1)


def _conversation(labels: Labels, said: str, answer: str = "") -> LabelledConversation:
    return LabelledConversation(0, (("user", said), ("assistant", answer)), labels)


def _encode(text: str) -> list[int]:
    return [{"invoice": 1, "pain": 2, "please": 3}[word] for word in text.split()]


def test_a_word_speaks_for_the_label_it_comes_with() -> None:
    conversations = [
        _conversation(BILLING, "invoice please", answer="pain"),
        _conversation(SYMPTOMS, "pain please"),
    ] * 50
    evidence = word_evidence(conversations, _encode, vocab_size=4)
    billing, symptoms = (facts_of(labels).index(1) for labels in (BILLING, SYMPTOMS))
    assert evidence[1][billing] > 0.5
    assert evidence[1][symptoms] < -1
    assert evidence[2][symptoms] > 0.5
    assert abs(evidence[3][billing]) < 0.1
    assert evidence[0] == [0.0] * len(facts_of(BILLING))


def test_facts_name_every_label_value_once() -> None:
    facts = [facts_of(Corpus("train").conversation(seed).labels) for seed in range(300)]
    assert len({len(fact) for fact in facts}) == 1
    assert all(sum(column) > 0 for column in zip(*facts, strict=True))
    assert {sum(fact) for fact in facts} == {3, 4}
