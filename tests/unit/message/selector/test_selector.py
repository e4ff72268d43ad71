"""What a selector is to its callers, and what hostile ones cannot make of it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from jdbcstore import Message
from jdbcstore.errors import CorruptMessage, InvalidSelector
from jdbcstore.message import openwire
from jdbcstore.message.selector import MAX_LENGTH, Selector
from jdbcstore.message.selector.conditions import like
from tests.support.selector.table import CASES, MESSAGE, E, T


def test_it_says_what_it_asks_for() -> None:
    selector = Selector("colour = 'red' AND (JMSPriority > 3 OR colour IS NULL)")
    assert selector.text == "colour = 'red' AND (JMSPriority > 3 OR colour IS NULL)"
    assert selector.names == {"colour", "JMSPriority"}
    assert selector == Selector(selector.text)
    assert hash(selector) == hash(Selector(selector.text))
    assert selector != Selector("colour = 'red'")
    assert repr(Selector("a")) == "Selector('a')"


@pytest.mark.parametrize("blank", ["", "  ", "\t\n", "convert_string_expressions: "])
def test_a_blank_one_selects_everything(blank: str) -> None:
    assert Selector(blank).matches(MESSAGE)
    assert Selector(blank).names == frozenset()


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("count == 7", 7, "equal is written with a single ="),
        ("count != 7", 6, "write <> for unequal"),
        ('colour = "red"', 9, "single quotes"),
        ("colour = 'red", 9, "is not closed"),
        ("and = 7", 0, "AND is a reserved word"),
        ("count = NULL", 8, "NULL is allowed only in IS NULL"),
        ("count =", 7, "it ends where a property, a number or a string"),
        ("(count = 7", 10, "a closing parenthesis"),
        ("count = 7)", 9, "an operator or the end"),
        ("upper(colour) = 'RED'", 5, "functions are not supported"),
        ("REGEX('r.*', colour)", 5, "REGEX"),
        ("count = 7 -- note\n", 10, "comments"),
        ("count = 7 AND -- note\n count = 7", 14, "comments"),
        ("/* note */ count = 7", 0, "comments"),
        ("count = 7 /* note */", 10, "comments"),
        ("count IN (7)", 10, "a string in single quotes"),
        ("count IN 'a'", 9, "a list in parentheses"),
        ("colour > 'a'", 9, "> is for numbers, and this is a string"),
        ("colour = 'a' AND count + 1", 17, "a number alone is not a condition"),
        ("9223372036854775808 = count", 0, "beyond a Java long"),
        ("count = 08", 8, "begins with 0 is octal"),
        ("colour LIKE 'a' ESCAPE 'ab'", 23, "one character"),
        ("count = 7; x", 9, "remove the ;"),
        ("XPATH 'a'", 0, "not supported"),
        ("convert_string_expressions:count = ", 8, "it ends"),
        ("convert_string_expressions:count = @", 8, "'@' is not allowed"),
    ],
)
def test_an_error_says_where_and_why(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        Selector(text)
    written = text.removeprefix("convert_string_expressions:")
    assert (caught.value.selector, caught.value.position) == (written, position)
    assert reason in caught.value.reason


def test_headers_are_asked_for_without_decoding_properties() -> None:
    stored = bytearray(openwire.encode(Message("x", priority=7, properties={"a": "UNIQUE"})))
    at = stored.find(b"UNIQUE") - 3
    stored[at] = 0xEE  # a type that there is not
    damaged = openwire.decode(bytes(stored))
    assert Selector("JMSPriority = 7 AND JMSDeliveryMode = 'PERSISTENT'").matches(damaged)
    assert not Selector("JMSPriority = 8 AND a = 'UNIQUE'").matches(damaged)
    with pytest.raises(CorruptMessage):
        Selector("a = 'UNIQUE'").matches(damaged)


def test_stored_messages_are_selected_as_new_ones() -> None:
    decoded = openwire.decode(openwire.encode(MESSAGE))
    wrong = [
        case.text
        for case in CASES
        if case.expected != E and Selector(case.text).matches(decoded) != (case.expected == T)
    ]
    assert wrong == []


HOSTILE = {
    "parentheses": "(" * 4_000 + "count" + ")" * 4_000,
    "open parentheses": "(" * 9_000,
    "negations": "NOT " * 2_000 + "open",
    "signs": "-" * 9_000 + "count = 7",
    "conjunctions": "open AND " * 1_000 + "open",
    "disjunctions": "shut OR " * 1_000 + "shut",
    "mixed": "(open AND (shut OR " * 500 + "open" + "))" * 500,
    "sums": "count + " * 1_000 + "1 = 2",
    "products of sums": "(1 + (2 * " * 900 + "3" + "))" * 900 + " = 4",
    "comparisons": "((count = 7) = TRUE) AND " * 300 + "open",
    "list": "colour IN (" + ",".join(f"'{number}'" for number in range(1_200)) + ")",
    "quotes": "'" * 9_999,
    "digits": "1" * 9_000 + " = count",
    "exponent": "1e" + "9" * 9_000 + " = count",
    "tiny": "1e-" + "9" * 9_000 + " = count",
    "blanks": " " * 9_990 + "open",
    "spoilt conversion": "convert_string_expressions:" * 300,
    "too long": "open OR " * 200_000 + "open",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.slow
def test_hostile_ones_are_answered_or_refused(text: str) -> None:
    said = ""
    try:
        Selector(text).matches(MESSAGE)
    except InvalidSelector as error:
        said = str(error)
    assert len(said) < 1_000


def test_the_deepest_needs_a_fraction_of_the_stack() -> None:
    deepest = Selector("(open AND (shut OR " * 70 + "open" + "))" * 70)
    limit, depth = sys.getrecursionlimit(), 0
    frame = sys._getframe()
    while (back := frame.f_back) is not None:
        frame, depth = back, depth + 1
    try:
        sys.setrecursionlimit(depth + 400)
        assert deepest.matches(MESSAGE)
    finally:
        sys.setrecursionlimit(limit)


def test_the_longest_is_taken() -> None:
    assert Selector("open".ljust(MAX_LENGTH)).matches(MESSAGE)
    with pytest.raises(InvalidSelector, match="the limit is 10000"):
        Selector("open".ljust(MAX_LENGTH + 1))


def test_numbers_in_texts_are_bounded() -> None:
    converting = Selector("convert_string_expressions:number > 5")
    for text in ("9" * 100_000, "1e999", "\u0667", "7_0", " 7 ", "0x7", "nan", ""):
        converting.matches(Message(properties={"number": text}))
    assert not converting.matches(Message(properties={"number": "9" * 100_000}))
    assert converting.matches(Message(properties={"number": "9" * 30}))
    assert not converting.matches(Message(properties={"number": "\u0667"}))


def test_like_agrees_with_its_definition() -> None:
    def defined(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(defined(pattern[1:], text[at:]) for at in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and defined(pattern[1:], text[1:])

    texts = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
    for size in range(5):
        for letters in product("ab_%", repeat=size):
            pattern = "".join(letters)
            is_like = like(pattern, None)
            assert [is_like(text) for text in texts] == [defined(pattern, text) for text in texts], pattern


def test_like_tries_no_way_twice() -> None:
    """ActiveMQ takes minutes for this: it tries every way to cut the text."""
    text = "a" * 5_000
    assert not like("%a%a%a%a%a%a%a%a%b", None)(text)
    assert not like("%" + "_%" * 2_500 + "b%", None)(text)


def test_threads_share_one() -> None:
    def ask(number: int) -> bool:
        return Selector(f"count + {number % 7} = {7 + number % 7}").matches(MESSAGE)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(400)))
