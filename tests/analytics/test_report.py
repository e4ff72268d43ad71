"""``jdbcstore report``: one page, which loads nothing, and in which messages are text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jdbcstore.analytics.questions import named
from jdbcstore.analytics.report import PLOTS, Section, page, with_empty_minutes
from jdbcstore.cli import main
from tests.analytics.conftest import Invoke

pytest.importorskip("plotly")

EVIL = '<img src="http://evil.example/x" onerror="alert(1)"></script><script>alert(2)</script>'


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "h2" and data.strip():
            self.headings.append(data.strip())


def test_the_page_of_the_recorded_rows(invoke: Invoke, tmp_path: Path) -> None:
    assert main(["send", f"queue://{EVIL}", "x", "--property", f"p={EVIL}"]) == 0
    result = invoke("report", "--json", "-o", "page.html")
    assert (result.code, result.err) == (0, "")
    rows = result.json["rows"]
    assert rows.keys() == named().keys() == PLOTS.keys()
    assert rows["largest"] == 20
    tags = Tags((tmp_path / "page.html").read_text())
    assert {tag for tag, _ in tags.tags} & {"img", "link", "iframe", "object"} == set()
    assert not any({"src", "href", "onerror"} & attributes.keys() for _, attributes in tags.tags)
    policies = [one["content"] for tag, one in tags.tags if tag == "meta" and "content" in one]
    assert str(policies[0]).startswith("default-src 'none'")
    drawn = {one["id"] for tag, one in tags.tags if tag == "div" and str(one.get("id")).startswith("plot-")}
    assert drawn == {f"plot-{name}" for name, count in rows.items() if count}


def test_what_messages_say_is_escaped_and_long_answers_are_cut() -> None:
    rows = [[EVIL, "n", "string", 3, EVIL]] * 30
    section = Section("properties", "?", ["destination", "name", "type", "messages", "example"], rows, True)
    empty = Section("lag", "?", ["destination"], [], False)
    text = page([section, empty], EVIL, "now")
    assert "evil.example/x" in text
    assert not re.search(r"<img|</script><script>alert", text[text.index("<h1>") :])
    assert "30 rows, and more" in text
    assert "<p>None.</p>" in text


def test_a_line_falls_to_zero_in_empty_minutes() -> None:
    """It does not slope across hours in which nothing came."""
    times = [None, "2026-11-21T10:00:00.000Z", "2026-11-21T10:01:00.000Z", "2026-11-21T13:00:00.000Z"]
    drawn, counts = with_empty_minutes(times, [9, 5, 6, 7])
    assert [time[11:16] for time in drawn] == ["10:00", "10:01", "10:02", "12:59", "13:00"]
    assert counts == [5, 6, 0, 0, 7]
    assert with_empty_minutes(["2026-11-21T10:00:00Z", "2026-11-21T10:02:00Z"], [1, 2])[1] == [1, 0, 2]
