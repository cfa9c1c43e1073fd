"""The report in a real browser: no request, no error, at desk and phone width, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.diff.gate import Check
from pipeline.diff.result import Comparison
from pipeline.report.build import render
from tests.browser import Browser
from tests.pipeline.report.example import ODD_ID, example

CONTRAST = """
(() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (c.startsWith("color(")) {
        const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
        return [r * 255, g * 255, b * 255];
      }
      const p = parse(c);
      if (p.length === 3 || p[3] > 0) return p;
    }
    return [255, 255, 255];
  };
  const worst = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !e.checkVisibility()) continue;
    if (["SCRIPT", "STYLE"].includes(e.tagName)) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    worst.push([ratio, walker.currentNode.textContent.trim().slice(0, 40)]);
  }
  return worst.sort((x, y) => x[0] - y[0])[0];
})()
"""

SHOWN = "[...document.querySelectorAll('#flip-table tbody tr')].filter(r => !r.hidden).length"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return example(str(tmp_path_factory.mktemp("out")))


@pytest.fixture(scope="module")
def file(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(comparison, [Check("flips", "failed", "too many")]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser.start() as started:
        yield started


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_is_readable_and_asks_for_nothing(
    browser: Browser, file: Path, width: int, dark: bool
) -> None:
    page = browser.open(file, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    outside = page.evaluate(
        """[...document.querySelectorAll("main *")].filter(e => !e.closest(".scroll, .hidden, svg")
        && e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1
        && !e.closest("thead")).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text
    assert page.requests == [file.resolve().as_uri()]
    assert page.errors == []


def test_flips_are_filtered_and_sorted(
    browser: Browser, file: Path, comparison: Comparison
) -> None:
    page = browser.open(file)
    total = comparison.overall["flips"]
    assert page.evaluate(SHOWN) == total
    assert page.evaluate("document.getElementById('shown').textContent") == f"{total} shown"

    def choose(control: str, value: str, event: str) -> int:
        page.evaluate(
            f"(c => {{ c.value = {value!r}; c.dispatchEvent(new Event({event!r})); }})"
            f"(document.getElementById({control!r}))"
        )
        return int(page.evaluate(SHOWN))

    topics = [f for f in comparison.flips if f["question_id"] == "topic"]
    assert choose("question", "triage/topic", "change") == len(topics)
    near = [f for f in topics if f["flip_class"] == "near_tie"]
    assert choose("kind", "near tie", "change") == len(near)
    assert choose("find", "no such conversation", "input") == 0
    assert page.evaluate("document.getElementById('none').checkVisibility()") is True
    assert choose("find", "", "input") == len(near)
    choose("kind", "", "change")
    assert choose("question", "", "change") == total
    choose("sort", "moved", "change")
    moved = page.evaluate(
        "[...document.querySelectorAll('#flip-table tbody tr')].map(r => +r.dataset.moved)"
    )
    assert moved == sorted(moved, reverse=True)
    assert page.errors == []


def test_everything_is_reached_by_keyboard(browser: Browser, file: Path) -> None:
    page = browser.open(file)
    reached = []
    for _ in range(30):
        page.press("Tab", 9)
        if page.evaluate("document.activeElement === document.body"):
            break  # past the last one
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.className")
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
    assert reached[0] == "skip"
    assert reached.count("scroll") == 3, "tables that can be wider than the page"
    for control in ("find", "question", "kind", "sort"):
        assert control in reached
    page = browser.open(file)
    page.press("Tab", 9)
    page.press("Enter", 13, "\r")
    assert page.evaluate("document.activeElement.id") == "flips"


def test_pictures_have_names_and_tables_headers(
    browser: Browser, file: Path, comparison: Comparison
) -> None:
    page = browser.open(file)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.title").startswith(
        f"{comparison.overall['verdict'].capitalize()}: single_pass against flag_off"
    )
    unnamed = page.evaluate(
        """[...document.querySelectorAll("svg[role=img]")].filter(s => {
          const by = s.getAttribute("aria-labelledby");
          return by ? by.split(" ").some(i => !document.getElementById(i)?.textContent.trim())
                    : !s.getAttribute("aria-label");
        }).length"""
    )
    assert unnamed == 0
    assert page.evaluate("document.querySelectorAll('table:not(:has(caption))').length") == 0
    assert page.evaluate("document.querySelectorAll('th:not([scope])').length") == 0
    labels = "[...document.querySelectorAll('input, select')].every(c => c.closest('label'))"
    assert page.evaluate(labels)


def test_marks_lie_where_the_numbers_say(
    browser: Browser, file: Path, comparison: Comparison
) -> None:
    """A flip lies above the diagonal, for it moved by at least its margin."""
    page = browser.open(file)
    marks = page.evaluate(
        """[...document.querySelectorAll("#scatter-title ~ use")].map(u =>
          [u.getAttribute("class"), ...["x", "y"].map(n => parseFloat(u.getAttribute(n)))])"""
    )
    flips = [m for m in marks if m[0] != "same"]
    assert len(flips) == len(comparison.flips)
    assert all(100 - y >= x - 0.02 for _, x, y in flips)
    assert len(marks) > len(flips)


def test_an_id_made_of_markup_stays_text(browser: Browser, file: Path) -> None:
    page = browser.open(file)
    assert page.evaluate("document.images.length") == 0
    ids = page.evaluate(
        "[...document.querySelectorAll('#flip-table code')].map(c => c.textContent)"
    )
    assert ODD_ID in ids


def test_it_prints_without_its_controls(browser: Browser, file: Path) -> None:
    page = browser.open(file)
    assert page.pdf().startswith(b"%PDF-")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("document.querySelector('.filters').checkVisibility()") is False
    assert page.evaluate("document.querySelector('#flip-table').checkVisibility()") is True
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
