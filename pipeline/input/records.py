"""One record of a shard -> a Conversation, or the reason why it is none.

A record holds a conversation in one of four shapes:

    {"messages": [{"role": "user", "content": TEXT or [{"type": "text", "text": TEXT}, ...]}, ...]}
    {"conversations": [{"from": "human", "value": TEXT}, ...]}          ShareGPT
    {"text": TEXT}                                                     what a user says
    {"state": TEXT or JSON}                                            the same; JSON is rendered

and, where it likes, "id" (text or integer, unique in the run), "group" (text, shared by
conversations that are not independent of each other: paraphrases, one scenario), "metadata" (an
object), "gold" ({QUESTION: OPTION, ...}) and "rubrics" ([RUBRIC, ...], those of the job that apply
to it).
Other keys are left alone; null is the same as absent.

Reasons name the place (key, message number, byte) and the remedy, never a value: whatever stands
in a record may be text of a conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.input.conversations import Conversation, Message, Rejected

CONVERSATION_KEYS = ("messages", "conversations", "state", "text")
RECORD_KEYS = ("id", "group", "metadata", "gold", "rubrics", *CONVERSATION_KEYS)
MAX_ID_LENGTH = 256
MAX_ROLE_LENGTH = 64

_SHAREGPT_ROLES = {"human": "user", "gpt": "assistant"}
_TEXT_PARTS = ("text", "input_text", "output_text")
_YES_NO = {True: "yes", False: "no"}


class BadRecord(Exception):  # noqa: N818  (a verdict on input, not a failure of the program)
    """Why a record is no conversation: a stable `code` and a message without its text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def parse_record(
    record: bytes | dict[str, Any] | BadRecord,
    source: str,
    record_index: int,
    rubric_ids: frozenset[str] | None = None,
) -> Conversation | Rejected:
    """One record as the shard holds it -> a Conversation or its errors row (stage `parse`).

    Args:
        record: a line of JSONL, a row of Parquet, or what is wrong with it already.
        source: name of the shard.
        record_index: its place there, from 0.
        rubric_ids: when given, the only ids the record's `rubrics` may name.
    """
    conversation_id = None
    try:
        if isinstance(record, BadRecord):
            raise record
        value = _json(record) if isinstance(record, bytes) else record
        if not isinstance(value, dict):
            raise BadRecord("wrong_type", f"the record is {_kind(value)}; it must be an object")
        conversation_id = _id(value.get("id"))
        fields = {key: value[key] for key in RECORD_KEYS if value.get(key) is not None}
        return Conversation(
            id=conversation_id or f"{source}#{record_index}",
            messages=_messages(fields),
            group=_group(fields.get("group")),
            metadata=_object(fields, "metadata"),
            gold={question: _option(name) for question, name in _object(fields, "gold").items()},
            rubrics=_rubrics(fields.get("rubrics"), rubric_ids),
            source=source,
            record_index=record_index,
        )
    except BadRecord as error:
        reason = error
    except RecursionError:
        reason = BadRecord("invalid_json", "the record's JSON is nested too deeply")
    return Rejected(
        source, record_index, conversation_id, None, "parse", reason.code, reason.message
    )


def _json(line: bytes) -> Any:
    if b"\0" in line:
        raise BadRecord("nul_character", "the record holds NUL bytes; is the shard UTF-16?")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecord(
            "invalid_utf8", f"byte {error.start} of the record is not UTF-8; re-encode the shard"
        ) from None
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise BadRecord(
            "invalid_json",
            f"not valid JSON at character {error.pos} of the record; write one object per line",
        ) from None
    except ValueError:  # thousands of digits in one integer
        raise BadRecord(
            "invalid_json", "the record's JSON holds a number too long to read"
        ) from None
    if (rb"\ud" in line or rb"\uD" in line) and _has_surrogate(value):
        raise BadRecord(
            "lone_surrogate",
            "the record holds half of a UTF-16 surrogate pair, which no text can hold; "
            "write the whole character",
        )
    return value


def _no_constant(_: str) -> None:
    raise BadRecord("invalid_json", "the record holds NaN or Infinity, which JSON does not have")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRecord("invalid_json", "an object of the record has the same key twice")
    return found


def _has_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _id(value: Any) -> str | None:
    """The id a record states; None where it states none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRecord("wrong_type", f"id is {_kind(value)}; it must be a string or an integer")
    return _printable(value, "id")


def _group(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRecord("wrong_type", f"group is {_kind(value)}; it must be a string")
    return _printable(value, "group")


def _printable(value: str, key: str) -> str:
    if not value.strip() or len(value) > MAX_ID_LENGTH or not value.isprintable():
        raise BadRecord(
            f"invalid_{key}",
            f"{key} must be 1 to {MAX_ID_LENGTH} printable characters, not all blank",
        )
    return value


def _messages(fields: Mapping[str, Any]) -> tuple[Message, ...]:
    keys = [key for key in CONVERSATION_KEYS if key in fields]
    if not keys:
        raise BadRecord(
            "missing_messages", f"the record has none of the keys {', '.join(CONVERSATION_KEYS)}"
        )
    if len(keys) > 1:
        raise BadRecord(
            "ambiguous_messages", f"the record has {' and '.join(keys)}; keep one of them"
        )
    messages = tuple(_shape(keys[0], fields[keys[0]]))
    if not any(message.content.strip() for message in messages):
        raise BadRecord("empty_conversation", "no message has any text")
    if any("\0" in message.content for message in messages):
        raise BadRecord("nul_character", "a message holds the NUL character; remove it")
    return messages


def _shape(key: str, value: Any) -> Iterator[Message]:
    """The messages of one of the shapes a conversation comes in."""
    if key == "text":
        if not isinstance(value, str):
            raise BadRecord("wrong_type", f"text is {_kind(value)}; it must be a string")
        yield Message("user", value)
    elif key == "state":
        yield Message("user", _rendered(value))
    elif not isinstance(value, list):
        raise BadRecord("wrong_type", f"{key} is {_kind(value)}; it must be a list of messages")
    else:
        names = ("role", "content") if key == "messages" else ("from", "value")
        for index, message in enumerate(value):
            yield _message(message, f"{key}[{index}]", *names)


def _rendered(state: Any) -> str:
    """A state as text: strings as they are, JSON with its Unicode kept."""
    if isinstance(state, str):
        return state
    return json.dumps(state, ensure_ascii=False, default=str) if state not in ({}, []) else ""


def _message(value: Any, place: str, role_key: str, content_key: str) -> Message:
    if not isinstance(value, dict):
        raise BadRecord("wrong_type", f"{place} is {_kind(value)}; it must be an object")
    role = value.get(role_key)
    if not isinstance(role, str):
        raise BadRecord(
            "wrong_type", f"{place} has {_kind(role)} as {role_key}; it must be a string"
        )
    if not role.strip() or len(role) > MAX_ROLE_LENGTH or not role.isprintable():
        raise BadRecord(
            "invalid_role",
            f"{place}: {role_key} must be 1 to {MAX_ROLE_LENGTH} printable characters, "
            "not all blank",
        )
    content = value.get(content_key)
    if isinstance(content, list) and role_key == "role":
        content = "\n".join(_text_part(part, f"{place}[{i}]") for i, part in enumerate(content))
    if not isinstance(content, str):
        raise BadRecord(
            "wrong_type", f"{place} has {_kind(content)} as {content_key}; it must be a string"
        )
    role = role.strip()
    return Message(_SHAREGPT_ROLES.get(role, role) if role_key == "from" else role, content)


def _text_part(part: Any, place: str) -> str:
    if isinstance(part, str):
        return part
    is_text = isinstance(part, dict) and part.get("type") in _TEXT_PARTS
    text = part.get("text") if is_text else None
    if not isinstance(text, str):
        raise BadRecord("unsupported_content", f"{place} is not a text part; only text is decided")
    return text


def _object(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key, {})
    if isinstance(value, list) and all(isinstance(p, tuple) and len(p) == 2 for p in value):
        value = dict(value)  # how a Parquet map arrives
    if not isinstance(value, dict):
        raise BadRecord("wrong_type", f"{key} is {_kind(value)}; it must be an object")
    return {name: item for name, item in value.items() if item is not None}


def _option(name: Any) -> str:
    if isinstance(name, bool):
        return _YES_NO[name]
    if isinstance(name, int):
        return str(name)
    if not isinstance(name, str):
        raise BadRecord("wrong_type", f"a value of gold is {_kind(name)}; it must name an option")
    return name


def _rubrics(value: Any, known: frozenset[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise BadRecord("wrong_type", "rubrics must be a list of one or more rubric ids")
    if known is not None and not known.issuperset(value):
        place = next(index for index, rubric in enumerate(value) if rubric not in known)
        raise BadRecord(
            "unknown_rubric",
            f"rubrics[{place}] is none of the job's {len(known)} rubrics; correct it or add it",
        )
    return tuple(dict.fromkeys(value))


def _kind(value: Any) -> str:
    """What a value is, in JSON's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
    return "binary data" if isinstance(value, bytes) else f"a {type(value).__name__}"
