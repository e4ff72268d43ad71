"""Names that databases compare in ways of their own, for whatever is found or ordered by name."""

from __future__ import annotations

BELOW = ("\t", "\n", "\x01x", "\tindented", " \t", "\x1f")
"""Before the empty name, where a comparison fills the shorter name with blanks, as MariaDB's and MySQL's."""
HALVES = ("\ud800", "\udfff", "a\ud83d", "\ude00a", "h" * 300 + "\ud800")
"""With half of a surrogate pair, as a Java client makes them that cuts a text within an emoji."""
ALIKE = (
    "b",
    "B",
    "b ",
    "é",
    "É",
    "e\u0301",
    "e",
    "ss",
    "ß",
    "漢",
    "😀",
    "😁",
    " ",
    " b",
    "%s",
    "'",
    "\\",
    "_",
)
"""Pairs that differ in case, accents or blanks only, and characters that SQL uses."""
LONG = ("k" * 300, "k" * 299 + "l", "k" * 300 + " ")
NAMES = ("", "a", *BELOW, *HALVES, *ALIKE, *LONG)
