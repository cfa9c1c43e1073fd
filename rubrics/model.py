"""Rubrics: sets of typed questions, and how they are read from YAML.

>>> question = Question(id="topic", type="choice", text="What is it about?",
...                     options=("billing", "symptoms"))
>>> question.labels, question.find("Billing")
(('A', 'B'), 0)
>>> Question(id="urgent", type="noul", text="Is it urgent?").labels
('yes', 'no')
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from rubrics import checks
from rubrics.errors import RubricError

LIBRARY = Path(__file__).parent / "library"

QuestionType = Literal["noul", "choice", "score"]

Name = Annotated[str, AfterValidator(lambda text: unicodedata.normalize("NFC", text))]


def _option_from_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Option(_Model):
    """One possible answer. In YAML a bare string is an option without description."""

    name: Name
    description: str | None = None


class Question(_Model):
    """One question.

    Attributes:
        id: names the question in tables and, in the `lines` dialect, in the canvas.
        type: `noul` (yes or no), `choice` (named options) or `score` (ordered levels, low first).
        text: what is asked.
        options: 2 to 26; for `noul` always yes, no (given only to describe them).
        depends_on: questions answered before this one; their answers are shown to it.
        ask_if: question id -> option names that allow this question; implies `depends_on`.
        alone: never shares a canvas with other questions.
    """

    id: Name
    type: QuestionType
    text: str
    options: tuple[Annotated[Option, BeforeValidator(_option_from_name)], ...] = ()
    depends_on: tuple[Name, ...] = ()
    ask_if: dict[Name, tuple[Name, ...]] = {}
    alone: bool = False

    def model_post_init(self, context: Any) -> None:
        if self.type == "noul" and not self.options:
            # The model is frozen for its users; this completes it before anybody holds it.
            object.__setattr__(self, "options", (Option(name="yes"), Option(name="no")))

    @property
    def labels(self) -> tuple[str, ...]:
        """What stands for each option in the canvas, in option order."""
        if self.type == "noul":
            return ("yes", "no")
        if self.type == "score" and len(self.options) <= 9:
            return tuple(string.digits[1 : len(self.options) + 1])
        return tuple(string.ascii_uppercase[: len(self.options)])

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Ids of the questions to answer first, each once."""
        return tuple(dict.fromkeys((*self.depends_on, *self.ask_if)))

    def find(self, option_name: str) -> int | None:
        """Index of the option of that name (case and Unicode form do not matter), or None."""
        key = checks.name_key(option_name)
        for index, option in enumerate(self.options):
            if checks.name_key(option.name) == key:
                return index
        return None


class Rubric(_Model):
    """A set of 1 to 64 questions asked about one conversation.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or of the wrong type.
        RubricError: the fields do not make a rubric; `problems` lists everything.
    """

    id: Name
    version: str
    instructions: str | None = None
    questions: tuple[Question, ...]

    def model_post_init(self, context: Any) -> None:
        numbered = list(enumerate(self.questions))
        own = {"id": self.id, "version": self.version, "instructions": self.instructions or ""}
        problems = checks.rubric_problems(own)
        problems += checks.question_problems(numbered, {q.id for q in self.questions})
        if problems:
            raise RubricError(f"rubric {self.id}: {problem}" for problem in problems)

    def question(self, question_id: str) -> Question:
        """The question of that id; KeyError if there is none."""
        for question in self.questions:
            if question.id == question_id:
                return question
        raise KeyError(question_id)


class _Loader(yaml.BaseLoader):
    """YAML whose scalars are all text, so that `yes`, `1.0` and `1` mean what they say."""


def _unique_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str) or key in seen:
            what = f"key {key!r} appears twice" if isinstance(key, str) else "a key is not text"
            raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def library_rubrics() -> tuple[str, ...]:
    """Names of the rubrics that ship, sorted."""
    return tuple(sorted(path.stem for path in LIBRARY.glob("*.yaml")))


def load_rubric(source: str | Path) -> Rubric:
    """Reads a rubric from a YAML file, or one that ships by its name.

    Raises:
        RubricError: every problem of the file, each with file and key.
    """
    path = Path(source)
    if isinstance(source, str) and source == path.name and not path.suffix:
        path = LIBRARY / f"{source}.yaml"
        if not path.exists():
            shipped = ", ".join(library_rubrics())
            raise RubricError(
                [f"rubric {source}: none ships by that name; use {shipped} or a path"]
            )
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise RubricError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise RubricError([f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"]) from error
    except yaml.YAMLError as error:
        raise RubricError([f"{path}: not valid YAML: {' '.join(str(error).split())}"]) from error
    if not isinstance(raw, dict):
        raise RubricError([f"{path}: a rubric is a mapping with id, version and questions"])
    try:
        return Rubric.model_validate(raw)
    except RubricError as error:
        raise RubricError(f"{path}: {problem}" for problem in error.problems) from error
    except ValidationError as error:
        problems = [_describe(problem) for problem in error.errors(include_url=False)]
        problems += _problems_of_the_rest(raw)
        raise RubricError(f"{path}: {problem}" for problem in problems) from error


def _problems_of_the_rest(raw: dict[str, Any]) -> list[str]:
    """Problems of the fields that are well formed, when others are not."""
    problems = checks.rubric_problems({k: v for k, v in raw.items() if isinstance(v, str)})
    items = raw.get("questions")
    items = items if isinstance(items, list) else []
    valid: list[tuple[int, Question]] = []
    for index, item in enumerate(items):
        try:
            valid.append((index, Question.model_validate(item)))
        except ValidationError:
            continue
    ids = {str(item["id"]) for item in items if isinstance(item, dict) and "id" in item}
    return problems + (checks.question_problems(valid, ids) if valid else [])


def _describe(problem: Any) -> str:
    key = ""
    for part in problem["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    if problem["type"] == "missing":
        return f"{key}: is missing; add it"
    value = "" if isinstance(problem["input"], dict | list) else f" (it is {problem['input']!r})"
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{value}; remove it or correct its spelling"
    if problem["type"] == "tuple_type":
        return f"{key}: has to be a list{value}"
    return f"{key}: {problem['msg']}{value}"
