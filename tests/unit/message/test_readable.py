"""Bodies as people read them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.message.readable import indented, indented_json, indented_xml, text_of_bytes

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


ORDER = """<?xml version="1.0" encoding="ISO-8859-1"?>
<order id='1'><item n="a &gt; b">two <![CDATA[<b> ]]> é</item><none/><empty> </empty><!-- c --><?p i?><y>
<z>1</z></y></order>
"""
INDENTED = """<?xml version="1.0" encoding="ISO-8859-1"?>
<order id='1'>
  <item n="a &gt; b">two <![CDATA[<b> ]]> é</item>
  <none/>
  <empty> </empty>
  <!-- c -->
  <?p i?>
  <y>
    <z>1</z>
  </y>
</order>"""


def test_xml_is_indented_as_it_was_written() -> None:
    assert indented_xml(ORDER) == INDENTED
    assert indented_xml(INDENTED) == INDENTED
    assert indented(ORDER) == INDENTED
    assert indented("[1]") == "[\n  1\n]"
    assert indented("<a> or [b") == "<a> or [b"


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "<a>", "<a></b>", "<a/><b/>", "<p>a <b>c</b></p>", "<a>\ud800</a>"),
        *('<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', "<a>" * 31 + "</a>" * 31, '<"' * 100_000),
    ],
)
def test_what_is_not_xml_or_too_deep_or_has_elements_in_text(text: str) -> None:
    assert indented_xml(text) is None
