"""Every public name says what it promises: the docstrings of the API, read without importing it."""

from __future__ import annotations

import ast
import builtins
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.support import ROOT

PUBLIC = ROOT / "docs" / "public-names.csv"

# What every method of a store may raise: the docstring of jdbcstore.abc says so once.
FROM_ANY_METHOD = {"StoreUnavailable", "StoreClosed", "LockLost"}
CONSTRUCTORS = ("__init__", "__post_init__", "__new__")

HOW_TO_DOCUMENT = (
    "Say what it promises (durability, ordering, threads), its unit, and what it raises. What implements a"
    " protocol is documented there, if the docstring of its class names the protocol: 'see"
    " :class:`jdbcstore.abc.Store`'. An attribute is documented by a string after it, or by its name in"
    " ``backticks`` in the docstring of its class."
)


@dataclass(frozen=True)
class Definition:
    """A class, function, alias or constant, or a member of a class, with its own docstring."""

    module: str
    name: str
    node: ast.stmt
    text: str

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)

    @property
    def body(self) -> list[ast.stmt]:
        return getattr(self.node, "body", [])

    def __str__(self) -> str:
        return f"{path_of(self.module).relative_to(ROOT)}:{self.node.lineno}: {self.name}"


def path_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


# The names of a module.


@cache
def definitions(module: str) -> dict[str, Definition | str]:
    """Each name at the top of a module: its definition, or the module that it is imported from."""
    found: dict[str, Definition | str] = {}
    for node, text in documented(top_level(ast.parse(path_of(module).read_text()).body)):
        match node:
            case ast.ImportFrom():
                found.update((alias.asname or alias.name, node.module or "") for alias in node.names)
            case ast.ClassDef() | ast.FunctionDef():
                own = Definition(module, node.name, node, ast.get_docstring(node) or "")
                found.setdefault(node.name, own)
            case _:
                found.update((name, Definition(module, name, node, text)) for name in assigned(node))
    return found


def top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import, and those for type checkers only."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from top_level([*node.body, *node.orelse])
        else:
            yield node


def documented(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with the string that follows it, which documents an attribute."""
    nodes = [*body, ast.Pass()]
    for node, following in pairwise(nodes):
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, text
            case _:
                yield node, ""


def assigned(node: ast.stmt, owner: str = "") -> list[str]:
    """The names that a statement assigns, or the attributes of ``owner``."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if owner:
        attributes = [target for target in targets if isinstance(target, ast.Attribute)]
        return [target.attr for target in attributes if ast.unparse(target.value) == owner]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def find(module: str, name: str) -> Definition | None:
    """The definition of a name as a module sees it; None if it is not of this package."""
    found = definitions(module).get(name)
    if isinstance(found, str):
        return find(found, name) if found.startswith("jdbcstore") else None
    return found


# The public names.


@cache
def public_modules() -> dict[str, set[str]]:
    """Each public module with its public names, from the list beside the reference."""
    with PUBLIC.open(encoding="utf-8", newline="") as file:
        listed = {row["module"]: {*row["names"].split()} for row in csv.DictReader(file)}
    return {"jdbcstore": set(), **listed}


def exported(module: str) -> list[str]:
    """``__all__``; else what the reference lists; else each class, function and type that it defines."""
    names = definitions(module)
    match names.get("__all__"):
        case Definition(node=ast.Assign(value=listed)):
            return [*ast.literal_eval(listed)]
    own = [name for name, one in names.items() if isinstance(one, Definition) and name[0] != "_"]
    some = [name for name in own if name in public_modules()[module]]
    return some or [name for name in own if not name.isupper()]


@cache
def api() -> tuple[Definition, ...]:
    every = (find(module, name) for module in public_modules() for name in exported(module))
    return tuple({one: None for one in every if one is not None})


def classes() -> list[Definition]:
    return [one for one in api() if isinstance(one.node, ast.ClassDef)]


@cache
def family(cls: Definition) -> tuple[Definition, ...]:
    """A class and its bases, as far as they are of this package."""
    bases = (find(cls.module, name) for name in base_names(cls))
    return (cls, *(one for base in bases if base is not None for one in family(base)))


def base_names(cls: Definition) -> list[str]:
    bases = cls.node.bases if isinstance(cls.node, ast.ClassDef) else []
    return [ast.unparse(base).partition("[")[0] for base in bases]


@cache
def lineage(cls: Definition) -> tuple[Definition, ...]:
    """Its family, and the protocols that the docstring of the class names."""
    named = (find(*found) for found in re.findall(r"`~?(jdbcstore[\w.]*)\.(\w+)`", cls.text))
    protocols = (one for one in named if one is not None and "Protocol" in base_names(one))
    return (*family(cls), *(one for protocol in protocols for one in family(protocol)))


@cache
def members(cls: Definition) -> dict[str, Definition]:
    """The public methods, properties and attributes that a class defines itself."""
    found: dict[str, Definition] = {}
    for node, text, names in member_statements(cls):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                text = ast.get_docstring(node) or ""
            case ast.AnnAssign() if "ClassVar" in ast.unparse(node.annotation):
                text = text or "a constant"  # whose value says enough
            case ast.Assign(value=ast.Constant(value=str(words))) if " " in words:
                text = text or words  # a member of an enumeration
        for name in names:
            if not name.startswith("_") and (name not in found or text):
                found[name] = Definition(cls.module, f"{cls.name}.{name}", node, text)
    return found


def member_statements(cls: Definition) -> Iterator[tuple[ast.stmt, str, list[str]]]:
    for node, text in documented(cls.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, "", [node.name]
        else:
            yield node, text, assigned(node)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for block in ast.walk(node):
                body = getattr(block, "body", None)
                if isinstance(body, list):
                    yield from ((one, text, assigned(one, "self")) for one, text in documented(body))


def docstrings(cls: Definition, name: str) -> list[str]:
    """The docstring of a member, and those that it inherits; of an attribute also those of its classes."""
    found = [(one, members(one).get(name)) for one in lineage(cls)]
    texts = [member.text for _, member in found if member is not None]
    if not any(member.is_function for _, member in found if member is not None):
        texts += [one.text for one, _ in found if f"``{name}``" in one.text]
    return [text for text in texts if text]


def functions() -> Iterator[tuple[Definition, list[str]]]:
    """The public functions, methods and constructors, each with the docstrings that are about it."""
    yield from ((one, [one.text]) for one in api() if one.is_function)
    for cls in classes():
        own = members(cls).items()
        yield from ((one, docstrings(cls, name)) for name, one in own if one.is_function)
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name in CONSTRUCTORS:
                yield Definition(cls.module, cls.name, node, cls.text), [one.text for one in family(cls)]


# The errors of a function.


def raised(function: Definition) -> set[str]:
    """The errors of this library that the body of a function raises itself, and does not catch."""
    waiting = [*function.body]
    found = set()
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef():
                continue
            case ast.Raise(exc=ast.expr() as error):
                found.add(ast.unparse(error).partition("(")[0])
            case ast.Try(handlers=[_, *_]):
                waiting += [*(one for handler in node.handlers for one in handler.body), *node.orelse]
                continue
        waiting += (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt))
    return found & {*definitions("jdbcstore.errors")}


def kinds(error: str) -> set[str]:
    """An error and its base classes."""
    found = find("jdbcstore.errors", error)
    return set() if found is None else {one.name for one in family(found)}


def named(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in re.findall(r":raises (\w+):", text)}


# The tests.


def test_every_public_name_has_a_docstring() -> None:
    missing = [one for one in api() if not one.text]
    for cls in classes():
        inherited = {name: one for base in reversed(family(cls)) for name, one in members(base).items()}
        missing += [one for name, one in inherited.items() if not docstrings(cls, name)]

    assert [f"{one} has no docstring. {HOW_TO_DOCUMENT}" for one in missing] == []


def test_a_docstring_says_when_an_error_is_raised() -> None:
    silent = [
        f"{one} raises {error}, and its docstring does not say when. Add a line ':raises {error}: when'"
        for one, texts in functions()
        for error in sorted(raised(one) - FROM_ANY_METHOD)
        if not kinds(error) & named(texts)
    ]
    assert silent == []


def test_errors_in_docstrings_exist_and_are_written_alike() -> None:
    known = {*vars(builtins), *definitions("jdbcstore.errors")}
    texts = [(one, text) for one, every in functions() for text in every]

    assert [f"{one}: there is no {name}" for one, text in texts for name in named([text]) - known] == []
    assert [
        f"{one}: write ':raises {error}: when', as everywhere"
        for one, text in texts
        for error in re.findall(r":class:`[\w.~]*?(\w+)` (?:if|when|unless)\b", text)
        if error in known
    ] == []


def test_guides_use_public_names() -> None:
    hidden = [
        f"{page.relative_to(ROOT)} imports {name} of {module}: list it in {PUBLIC.name}, or do without"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for module, names in re.findall(
            r"^from (jdbcstore[\w.]*) import ([\w, ]+)$", page.read_text(), re.MULTILINE
        )
        for name in names.split(", ")
        if f"{module}.{name}" not in public_modules()
        and not (module in public_modules() and name in exported(module))
    ]
    assert hidden == []
