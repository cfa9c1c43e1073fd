"""Text stays text: no text becomes a control token, and no other text changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from tests.rubrics.tokenizers import BYTES, CONTROL_TOKENS, PLAIN_ADDED_TOKENS, small_tokenizer

LOOK_ALIKES = [
    *CONTROL_TOKENS,
    *PLAIN_ADDED_TOKENS,
    "<0x0A>",
    "<",
    ">",
    "|",
    "turn",
    "▁",
    " ",
    "\n",
]

# The small tokenizer is made here as well: hypothesis calls a test many times per fixture.
SMALL = small_tokenizer()
ENCODER = TextEncoder(SMALL)

texts = st.one_of(
    st.text(),
    st.lists(st.one_of(st.sampled_from(LOOK_ALIKES), st.text(max_size=4))).map("".join),
)


@given(texts)
def test_no_text_becomes_a_control_token(text: str) -> None:
    assert not ENCODER.control_ids & set(ENCODER.encode(text))


@given(texts)
def test_encoded_text_decodes_to_itself(text: str) -> None:
    # `▁` is how this tokenizer writes a space, so the two are one to it.
    decoded = SMALL.decode(ENCODER.encode(text), skip_special_tokens=False)
    assert decoded == text.replace("▁", " ")


@given(texts)
def test_text_without_look_alikes_keeps_its_ids(text: str) -> None:
    ids = tuple(SMALL.encode(text, add_special_tokens=False).ids)
    found = sum(i in ENCODER.control_ids for i in ids)
    assert ENCODER.count_control_tokens(text) == found
    if not found and "<unk>" not in text:
        assert ENCODER.encode(text) == ids


@given(st.lists(st.sampled_from(["<|turn>", "<turn|>", "<bos>", "[multimodal]"]), max_size=9))
def test_every_look_alike_is_counted(tokens: list[str]) -> None:
    assert ENCODER.count_control_tokens(" and ".join(tokens)) == len(tokens)


def test_control_ids_are_out_of_reach_by_construction(encoder: TextEncoder) -> None:
    reachable = encoder._text_only.get_vocab()
    assert not encoder.control_ids & set(reachable.values())
    assert {"\n\n", "<b>", "<unk>", *BYTES} <= reachable.keys()
    assert not {"<turn|>", "<|think|>", "[multimodal]"} & reachable.keys()


def test_gemma_text_keeps_its_ids(gemma: Tokenizer, gemma_encoder: TextEncoder) -> None:
    text = "Fever since 3 days.\n\n\n  <b>39.5</b> \t\t and \U0001f912 — wo ist der Arzt?\r\n名前"
    assert gemma_encoder.encode(text) == tuple(gemma.encode(text).ids)
    assert len(gemma_encoder.control_ids) == 6251


@given(texts=texts)
def test_no_text_becomes_a_gemma_control_token(gemma_encoder: TextEncoder, texts: str) -> None:
    spelled = texts.replace("<turn|>", "<end_of_turn>").replace("<|turn>", "<start_of_turn>")
    assert not gemma_encoder.control_ids & set(gemma_encoder.encode(spelled))


def test_merges_that_spell_a_control_token_are_taken_out() -> None:
    vocabulary = {"<pad>": 0, "<bos>": 1, "<start_of_turn>": 2, "<end_of_turn>": 3}
    vocabulary |= {character: 4 + i for i, character in enumerate("abcdefnorstu_<>x")}
    chain = ["<e", "<en", "<end", "<end_", "<end_o", "<end_of", "<end_of_", "<end_of_t"]
    chain += ["<end_of_tu", "<end_of_tur", "<end_of_turn"]
    vocabulary |= {piece: 100 + i for i, piece in enumerate(chain)}
    merges = [(piece[:-1], piece[-1]) for piece in [*chain, "<end_of_turn>"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.add_special_tokens(["<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>"])
    assert 3 in tokenizer.encode("x<end_of_turn>").ids
    encoder = TextEncoder(tokenizer)
    assert encoder.encode("x<end_of_turn>") == (
        vocabulary["x"],
        vocabulary["<end_of_turn"],
        vocabulary[">"],
    )
    assert encoder.channel is None


def test_byte_pieces_that_are_added_tokens_still_carry_bytes() -> None:
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in BYTES])
    encoder = TextEncoder(tokenizer)
    assert encoder.encode("名") == ENCODER.encode("名")
    assert encoder.encode("<0x41>") == ENCODER.encode("<0x41>")


def test_a_normaliser_cannot_smuggle_one_in() -> None:
    """Full-width brackets become ASCII ones under NFKC, in front of normalised added tokens."""
    parts = json.loads(small_tokenizer().to_str())
    parts["normalizer"] = json.loads(normalizers.NFKC().__getstate__())
    for token in parts["added_tokens"]:
        token["normalized"] = True
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    encoder = TextEncoder(tokenizer)
    text = "a＜turn｜＞b"
    assert tokenizer.token_to_id("<turn|>") in tokenizer.encode(text).ids
    assert not encoder.control_ids & set(encoder.encode(text))
    assert encoder.count_control_tokens(text) == 1


def test_added_tokens_beyond_the_vocabulary_keep_their_ids(encoder: TextEncoder) -> None:
    assert encoder.encode("<b>") == (SMALL.token_to_id("<b>"),)


def test_word_level_models_work() -> None:
    names = ["<pad>", "<bos>", "<|turn>", "<turn|>", "[UNK]", "hello"]
    model = models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert TextEncoder(tokenizer).encode("hello <turn|> x") == (5, 4, 4)


def test_models_that_cannot_be_reduced_are_refused() -> None:
    names = ["<pad>", "<bos>", "<|turn>", "<turn|>", "a"]
    tokenizer = Tokenizer(models.Unigram([(name, 0.0) for name in names], unk_id=0))
    with pytest.raises(RubricError, match="Unigram model cannot do without its control tokens"):
        TextEncoder(tokenizer)


def test_missing_structural_tokens_are_named() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<bos>": 0, "<pad>": 1, "x": 2}, unk_token="x"))
    with pytest.raises(RubricError, match="has no token '<start_of_turn>'"):
        TextEncoder(tokenizer)


@pytest.mark.parametrize("switch", ["enable_padding", "enable_truncation"])
def test_padding_and_truncation_are_refused(switch: str) -> None:
    tokenizer = small_tokenizer()
    getattr(tokenizer, switch)(**({"max_length": 8} if switch == "enable_truncation" else {}))
    with pytest.raises(RubricError, match="truncates or pads"):
        TextEncoder(tokenizer)
