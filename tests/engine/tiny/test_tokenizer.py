"""The embedded tokenizer: Gemma's control tokens at Gemma's ids, any text back unchanged."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engine.tiny.checkpoint import CHECKPOINT
from engine.tiny.tokenizer import NEWLINE_ID, VOCAB_SIZE, train_tokenizer

TOKENIZER = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


@pytest.mark.parametrize(
    ("token", "token_id"),
    [
        ("<pad>", 0),
        ("<eos>", 1),
        ("<bos>", 2),
        ("<unk>", 3),
        ('<|"|>', 52),
        ("<|think|>", 98),
        ("<|channel>", 100),
        ("<channel|>", 101),
        ("<|turn>", 105),
        ("<turn|>", 106),
        ("\n", NEWLINE_ID),
    ],
)
def test_control_tokens_have_the_released_models_ids(token: str, token_id: int) -> None:
    assert TOKENIZER.token_to_id(token) == token_id
    assert TOKENIZER.encode(token, add_special_tokens=False).ids == [token_id]


def test_the_vocabulary_is_dense() -> None:
    assert sorted(TOKENIZER.get_vocab().values()) == list(range(VOCAB_SIZE))


@pytest.mark.parametrize("label", ["yes", "no", *string.ascii_uppercase, *string.digits])
def test_a_label_is_one_token_at_a_lines_start_and_after_a_space(label: str) -> None:
    for text in (f"topic: {label}\n", f"{label}\n"):
        ids = TOKENIZER.encode(text, add_special_tokens=False).ids
        tokens = [TOKENIZER.id_to_token(i) for i in ids]
        assert tokens[-2:] in ([f"▁{label}", "\n"], [label, "\n"])


def test_digits_and_newlines_stand_alone() -> None:
    ids = TOKENIZER.encode("a 123\n\nb", add_special_tokens=False).ids
    tokens = [TOKENIZER.id_to_token(i) for i in ids]
    assert tokens == [
        "a", "▁1", "2", "3", "\n", "\n", "b",
    ]  # fmt: skip


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="▁<"), max_size=60)
)
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False).ids) == text


def test_equal_texts_give_an_equal_tokenizer() -> None:
    texts = ["The bill is due.", "My head hurts since Monday.", "Please move my visit."] * 20
    assert train_tokenizer(texts).to_str() == train_tokenizer(texts).to_str()
