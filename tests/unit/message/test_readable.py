"""Bodies as people read them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.message.readable import indented_json, text_of_bytes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("zwölf\n\tPints €".encode(), "zwölf\n\tPints €"),
        (b"\xff\xfe", None),
        (b"a\x00b", None),
        (b"\x1b[2J", None),
        (b"caf\xc3", None),
    ],
)
def test_bytes_that_are_text(data: bytes, text: str | None) -> None:
    assert text_of_bytes(data) == text


def test_a_character_may_be_cut() -> None:
    assert text_of_bytes("aä€".encode(), 4) == "aä"
    assert text_of_bytes("aä€".encode(), 6) == "aä€"


@given(st.lists(VALUES, min_size=1) | st.dictionaries(st.text(), VALUES, min_size=1))
def test_json_is_indented_as_by_python(value: object) -> None:
    assert indented_json(json.dumps(value)) == json.dumps(value, indent=2)


@pytest.mark.parametrize("text", ['{"a":1.10,"a":1e400,"b":[],"c":{}}', '[ "\\u00e9 , {" , -0.0 ]'])
def test_values_stay_as_they_were_written(text: str) -> None:
    found = indented_json(text)
    assert found is not None
    assert "".join(found.split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["", "1", '"a"', "{a: 1}", "[1,]", "[" * 100_000, "[" * 50 + "]" * 50])
def test_what_is_not_json_or_too_deep(text: str) -> None:
    assert indented_json(text) is None
