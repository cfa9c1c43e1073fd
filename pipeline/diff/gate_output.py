"""A gate's outcome for machines that run tests, and for people who review changes."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from pipeline.diff.gate import Check, met
from pipeline.diff.result import Comparison

_MARKS = {"passed": "✅ passed", "failed": "❌ failed", "undecided": "⚠️ undecided"}


def junit(comparison: Comparison, checks: Sequence[Check]) -> bytes:
    """JUnit XML: one test case per check. An undecided check is a failure of type `undecided`."""
    failures = [c for c in checks if c.status != "passed"]
    suite = ElementTree.Element(
        "testsuite",
        name="onepass gate",
        tests=str(len(checks)),
        failures=str(len(failures)),
        errors="0",
        skipped="0",
    )
    for check in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"onepass.{comparison.id}", name=check.name, time="0"
        )
        if check.status != "passed":
            failure = ElementTree.SubElement(
                case, "failure", type=check.status, message=check.detail
            )
            failure.text = check.detail
        else:
            ElementTree.SubElement(case, "system-out").text = check.detail
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document


def markdown(comparison: Comparison, checks: Sequence[Check]) -> str:
    """A short Markdown note: verdict, checks, questions that moved."""
    overall = comparison.overall
    baseline, candidate = comparison.sides[:2]
    lines = [
        f"### Decisions: {overall['verdict']}",
        "",
        overall["verdict_reason"],
        "",
        f"Baseline `{baseline.run_id}` ({baseline.build}), candidate `{candidate.run_id}` "
        f"({candidate.build}).",
    ]
    if checks:
        title = "met" if met(list(checks)) else "not met"
        lines += ["", f"**Gate {title}**", "", "| check | outcome | figures |", "|---|---|---|"]
        lines += [f"| {_cell(c.name)} | {_MARKS[c.status]} | {_cell(c.detail)} |" for c in checks]
    moved = [row for row in comparison.questions if row["flips"]]
    if moved:
        lines += ["", "| question | flips | of | rate | 95% interval | floor |"]
        lines += ["|---|---:|---:|---:|---|---:|"]
        lines += [_question(row) for row in sorted(moved, key=lambda r: -r["flip_rate"])]
    return "\n".join(lines) + "\n"


def _question(row: dict[str, object]) -> str:
    low, high = row["flip_rate_cluster_low"], row["flip_rate_cluster_high"]
    floor = row["noise_floor"]
    name = _cell(f"{row['rubric_id']}/{row['question_id']}")
    return (
        f"| {name} | {row['flips']:,} | {row['pairs']:,} | {row['flip_rate']:.2%} | "
        f"{low:.2%} to {high:.2%} | {'' if floor is None else format(floor, '.2%')} |"
    )


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
