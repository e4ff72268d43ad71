"""The field's own words: a short list of phrases that product and documents do without."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from tests.support import ROOT

# Each with what to write instead.
PHRASES = {
    r"\bin hand\b": "in flight, pending",
    r"\banew\b": "again",
    r"\ba text\b": "a string",
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more than\b|less\b|fewer\b|later\b)": "is not a",
    r"\bstands\b(?! for\b| in for\b)": "is, is set, is stored",
    r"\btold\b": "notified, logged, reported",
    r"\bthe (?:store|database|one) behind\b": "the backing store",
    r"\b(?:has|have) not\b(?= *[.,;:)]|$)": "does not have, does not support",
    r"\bgiv(?:es|ing|en) up\b|\bgave up\b|\bgive_up\b": "cancel, abandon",
    r"\bclosed? in order\b": "unclean shutdown",
    r"\bdid not expect\b": "unexpected error",
    r"\bwho wants\b|\bso that who\b|\bto who\b": "name them: the caller, the reader",
}
QUESTIONS = re.compile(r"(?:What|Who|Where|How|Whether|When|Why)\b")
# A function's docstring begins with a verb (ruff D401), an attribute's or a class's with a noun.
CLAUSES = re.compile(r"(?:What|Who|Whose|Those|That|Where|Which|How|Nobody)\b")
NOUNS = re.compile(
    r"\bwhat those\b|\bthose who\b|; (?:its|their) number\b|\bwho (?:wait|want|come)s?\b", re.IGNORECASE
)


def pages() -> list[Path]:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [page for page in documents if page.name != "CONTRIBUTING.md"]


def modules() -> list[Path]:
    return sorted((ROOT / "jdbcstore").rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_that_are_not_the_fields(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE | re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r};"
        f" write: {PHRASES[phrase]}"
        for path in [*modules(), *pages()]
        for text in (text_of(path),)
        for match in pattern.finditer(text)
    ]
    assert found == []


@cache
def docstrings() -> list[tuple[str, type[ast.AST], str]]:
    """Return each docstring of the finished folders, with its file and line, and the kind of its owner."""
    found: list[tuple[str, type[ast.AST], str]] = []
    for path in modules():
        name = path.relative_to(ROOT / "jdbcstore").as_posix()
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.append((f"{name}:{node.lineno}", type(node), ast.get_docstring(node) or ""))
            body = getattr(node, "body", None)
            for before, after in pairwise(body if isinstance(body, list) else []):
                match before, after:
                    case (ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                        found.append((f"{name}:{after.lineno}", type(before), text))
    return found


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert [where for where, _, text in docstrings() if CLAUSES.match(text)] == []
    assert [
        where
        for where, kind, text in docstrings()
        if kind in functions and text.startswith("Whether") and not is_property(where)
    ] == []


def test_a_clause_is_not_a_noun() -> None:
    assert [where for where, _, text in docstrings() if NOUNS.search(text)] == []


def is_property(where: str) -> bool:
    """Return whether the function of this line is decorated as a property."""
    name, _, line = where.partition(":")
    lines = text_of(ROOT / "jdbcstore" / name).splitlines()[: int(line) - 1]
    decorators = takewhile(lambda text: text.lstrip().startswith("@"), reversed(lines))
    return any("property" in text for text in decorators)


def test_a_module_begins_with_what_it_is() -> None:
    docstrings = {path: ast.get_docstring(ast.parse(text_of(path))) or "" for path in modules()}

    assert [str(path) for path, text in docstrings.items() if QUESTIONS.match(text)] == []
    assert [str(path) for path, text in docstrings.items() if not text and path.stat().st_size] == []
