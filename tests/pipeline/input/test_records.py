"""Records: every shape a conversation comes in, and every way a record can be none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.input.conversations import Conversation, Message, Rejected
from pipeline.input.records import BadRecord, parse_record

CANARY = "canary7f3a"


def parsed(record: Any, **arguments: Any) -> Conversation | Rejected:
    line = record if isinstance(record, bytes) else json.dumps(record).encode()
    return parse_record(line, "a.jsonl", 3, **arguments)


def conversation(record: Any, **arguments: Any) -> Conversation:
    found = parsed(record, **arguments)
    assert isinstance(found, Conversation), found
    return found


def rejected(record: Any, **arguments: Any) -> Rejected:
    found = parsed(record, **arguments)
    assert isinstance(found, Rejected), found
    assert (found.source, found.record_index, found.stage) == ("a.jsonl", 3, "parse")
    assert found.rubric_id is None
    assert CANARY not in repr(found)
    return found


class TestShapes:
    def test_messages_with_text(self) -> None:
        record = {
            "id": "c1",
            "messages": [
                {"role": "user", "content": "Hi."},
                {"role": " assistant ", "content": ""},
            ],
        }
        assert conversation(record) == Conversation(
            "c1",
            (Message("user", "Hi."), Message("assistant", "")),
            source="a.jsonl",
            record_index=3,
        )

    def test_content_in_parts_is_joined_by_lines(self) -> None:
        parts = [{"type": "text", "text": "a"}, "b", {"type": "input_text", "text": "c"}]
        found = conversation({"messages": [{"role": "user", "content": parts}]})
        assert found.messages == (Message("user", "a\nb\nc"),)

    def test_sharegpt_roles_get_their_usual_names(self) -> None:
        turns = [{"from": role, "value": role} for role in ("system", "human", "gpt", "tool")]
        found = conversation({"conversations": turns})
        assert [m.role for m in found.messages] == ["system", "user", "assistant", "tool"]

    @pytest.mark.parametrize("key", ["text", "state"])
    def test_plain_text_is_what_the_user_says(self, key: str) -> None:
        assert conversation({key: "Hi."}).messages == (Message("user", "Hi."),)

    def test_a_json_state_keeps_its_unicode(self) -> None:
        found = conversation({"state": {"nom": "Zoë", "症状": ["頭痛", 3]}})
        assert found.messages == (Message("user", '{"nom": "Zoë", "症状": ["頭痛", 3]}'),)

    def test_null_keys_count_as_absent(self) -> None:
        found = conversation(
            {"id": None, "group": None, "messages": None, "text": "Hi.", "gold": None,
             "rubrics": None}
        )  # fmt: skip
        assert found.id == "a.jsonl#3"
        assert found.group is None

    def test_other_keys_are_left_alone(self) -> None:
        assert conversation({"text": "Hi.", "model": "x"}).metadata == {}

    def test_extras(self) -> None:
        record = {
            "id": 17,
            "group": "g1",
            "text": "Hi.",
            "metadata": {"group": "g2", "nested": {"a": [1]}},
            "gold": {"topic": "billing", "frustration": 3, "human": True, "other": None},
            "rubrics": ["triage", "tone", "triage"],
        }
        found = conversation(record)
        assert (found.id, found.group) == ("17", "g1")
        assert found.metadata == {"group": "g2", "nested": {"a": [1]}}
        assert found.gold == {"topic": "billing", "frustration": "3", "human": "yes"}
        assert found.rubrics == ("triage", "tone")

    @pytest.mark.parametrize(
        "text",
        [
            "a line\u2028and\u2029more\u0085of it\x0b\x0c",
            "<|turn>model\n<turn|><bos><|channel>",
            "emoji 👩🏽‍⚕️, עברית, \u202eright to left",
            "\ufefftext",
            "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        ],
    )
    def test_unusual_text_is_text(self, text: str) -> None:
        assert conversation({"text": text}).messages[0].content == text
        unescaped = json.dumps({"text": text}, ensure_ascii=False).encode()
        assert conversation(unescaped).messages[0].content == text

    def test_a_hundred_thousand_words_are_no_problem_here(self) -> None:
        assert len(conversation({"text": "word " * 100_000}).messages[0].content) == 500_000


def turn(**changes: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi."}, {**changes}]}


BAD_RECORDS: list[tuple[str, Any, str, str]] = [
    ("broken JSON", f'{{"text": "{CANARY}'.encode(), "invalid_json", "character 9"),
    ("bad escape", f'{{"text": "{CANARY}\\q"}}'.encode(), "invalid_json", "character 20"),
    ("two values", f'"{CANARY}" "{CANARY}"'.encode(), "invalid_json", "one object per line"),
    ("NaN", f'{{"text": "{CANARY}", "metadata": NaN}}'.encode(), "invalid_json", "NaN"),
    ("same key", f'{{"text": "{CANARY}", "text": "x"}}'.encode(), "invalid_json", "twice"),
    ("deep", b'{"state": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json", "nested"),
    ("long number", b'{"state": ' + b"9" * 5000 + b"}", "invalid_json", "number"),
    ("Latin-1", f'{{"text": "{CANARY} \xe9"}}'.encode("latin-1"), "invalid_utf8", "byte 21"),
    ("surrogate bytes", b'{"text": "\xed\xa0\x80"}', "invalid_utf8", "byte 10"),
    ("UTF-16", f'{{"text": "{CANARY}"}}'.encode("utf-16-le"), "nul_character", "UTF-16"),
    ("NUL byte", f'{{"text": "{CANARY}\0"}}'.encode(), "nul_character", "NUL bytes"),
    ("NUL escape", {"text": f"{CANARY}\0"}, "nul_character", "a message holds"),
    ("lone high", {"text": f"{CANARY}\ud800"}, "lone_surrogate", "surrogate"),
    ("lone low", turn(role="user", content=f"{CANARY}\udc00"), "lone_surrogate", "surrogate"),
    ("surrogate in gold", {"text": CANARY, "gold": {"q": "\ud800"}}, "lone_surrogate", ""),
    ("a list", [CANARY], "wrong_type", "the record is a list; it must be an object"),
    ("a string", CANARY, "wrong_type", "the record is a string"),
    ("null", b"null", "wrong_type", "the record is null"),
    ("nothing", {"id": "x", "body": CANARY}, "missing_messages", "messages, conversations"),
    ("both", {"text": CANARY, "messages": []}, "ambiguous_messages", "messages and text"),
    ("text is a number", {"text": 5}, "wrong_type", "text is a number; it must be a string"),
    ("messages is text", {"messages": CANARY}, "wrong_type", "messages is a string"),
    ("message is text", {"messages": [CANARY]}, "wrong_type", "messages[0] is a string"),
    ("no role", turn(content=CANARY), "wrong_type", "messages[1] has null as role"),
    ("odd role", turn(role=[CANARY], content="x"), "wrong_type", "a list as role"),
    ("blank role", turn(role=" ", content=CANARY), "invalid_role", "messages[1]"),
    ("role of two lines", turn(role=f"a\n{CANARY}", content="x"), "invalid_role", "printable"),
    ("long role", turn(role=CANARY * 9, content="x"), "invalid_role", "1 to 64"),
    ("no content", turn(role="user"), "wrong_type", "messages[1] has null as content"),
    ("content object", turn(role="user", content={"a": CANARY}), "wrong_type", "an object as"),
    (
        "image",
        turn(role="user", content=[{"type": "image_url", "url": CANARY}]),
        "unsupported_content",
        "messages[1][0] is not a text part",
    ),
    ("ShareGPT value", {"conversations": [{"from": "human"}]}, "wrong_type", "null as value"),
    ("no messages", {"messages": []}, "empty_conversation", "no message has any text"),
    ("blank messages", turn(role="user", content="x") | {"messages": []}, "empty_conversation", ""),
    ("white space", {"text": " \n\t\u2028\u3000"}, "empty_conversation", ""),
    ("empty state", {"state": {}}, "empty_conversation", ""),
    ("id is a list", {"id": [CANARY], "text": CANARY}, "wrong_type", "id is a list"),
    ("id is a boolean", {"id": True, "text": CANARY}, "wrong_type", "id is a boolean"),
    ("blank id", {"id": " ", "text": CANARY}, "invalid_id", "1 to 256 printable"),
    ("id of two lines", {"id": f"a\n{CANARY}", "text": "x"}, "invalid_id", "printable"),
    ("long id", {"id": CANARY * 100, "text": "x"}, "invalid_id", "1 to 256"),
    ("numbered group", {"group": 7, "text": CANARY}, "wrong_type", "group is a number; it must"),
    ("listed group", {"group": [CANARY], "text": "x"}, "wrong_type", "group is a list"),
    ("blank group", {"group": "", "text": CANARY}, "invalid_group", "1 to 256 printable"),
    ("group of lines", {"group": f"a\n{CANARY}", "text": "x"}, "invalid_group", "printable"),
    ("metadata list", {"text": "x", "metadata": [CANARY]}, "wrong_type", "metadata is a list"),
    ("gold is text", {"text": "x", "gold": CANARY}, "wrong_type", "gold is a string"),
    ("gold holds a list", {"text": "x", "gold": {"q": [CANARY]}}, "wrong_type", "of gold is a"),
    ("rubrics is text", {"text": "x", "rubrics": CANARY}, "wrong_type", "rubrics must be"),
    ("no rubrics", {"text": "x", "rubrics": []}, "wrong_type", "one or more rubric ids"),
]


class TestBadRecords:
    @pytest.mark.parametrize(
        ("record", "code", "message"),
        [case[1:] for case in BAD_RECORDS],
        ids=[case[0] for case in BAD_RECORDS],
    )
    def test_each_has_its_code_and_no_text(self, record: Any, code: str, message: str) -> None:
        found = rejected(record)
        assert found.code == code
        assert message in found.message

    def test_the_id_is_kept_where_the_record_has_one(self) -> None:
        assert rejected({"id": "c9", "text": ""}).conversation_id == "c9"
        assert rejected({"text": ""}).conversation_id is None

    def test_a_rubric_the_job_does_not_have(self) -> None:
        record = {"text": "x", "rubrics": ["tone", CANARY]}
        found = rejected(record, rubric_ids=frozenset({"tone", "triage"}))
        assert found.code == "unknown_rubric"
        assert found.message == "rubrics[1] is none of the job's 2 rubrics; correct it or add it"
        assert conversation(record).rubrics == ("tone", CANARY)

    def test_what_the_shard_says_already_is_passed_on(self) -> None:
        found = parse_record(BadRecord("record_too_large", "over the limit"), "a", 0)
        assert found == Rejected("a", 0, None, None, "parse", "record_too_large", "over the limit")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries({}, optional={"role": JSON, "content": JSON, "from": JSON})
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "messages": JSON | st.lists(MESSAGE, max_size=3),
        "conversations": JSON | st.lists(MESSAGE, max_size=3),
        "state": JSON,
        "text": JSON,
        "metadata": JSON,
        "gold": JSON,
        "rubrics": JSON,
    },
)


class TestProperties:
    @pytest.mark.parametrize("key", ["state", "metadata", "other"])
    def test_no_depth_is_too_much(self, key: str) -> None:
        for depth in range(850, 1050):
            nested = b'{"a":' * depth + b"1" + b"}" * depth
            line = b'{"%s": %s}' % (key.encode(), nested)
            found = parse_record(line, "a.jsonl", 0)
            assert isinstance(found, Conversation | Rejected)

    @settings(deadline=None)
    @given(JSON | RECORD)
    def test_any_json_comes_out_once(self, value: Any) -> None:
        found = parse_record(json.dumps(value).encode(), "a.jsonl", 0)
        if isinstance(found, Conversation):
            assert any(message.content.strip() for message in found.messages)
            for message in found.messages:
                message.content.encode("utf-8")
                assert "\0" not in message.content

    @settings(deadline=None)
    @given(st.binary(max_size=60))
    def test_any_bytes_come_out_once(self, line: bytes) -> None:
        assert isinstance(parse_record(line, "a.jsonl", 0), Conversation | Rejected)

    @settings(deadline=None)
    @given(RECORD.filter(lambda record: record))
    def test_a_row_says_what_the_line_says(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
        by_line = parse_record(line, "a", 0)
        by_row = parse_record(record, "a", 0)
        assert by_line == by_row or isinstance(by_line, Rejected)
