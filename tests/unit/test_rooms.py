"""Small constructors and functions, names of classes, and one owner of each message's state."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jdbcstore"

PARAMETERS, LINES = 8, 60

# Larger ones: none may be added.
CONSTRUCTORS = {
    "message/message.py: Message",
    "stores/claims/claims.py: Claims",
    "stores/jdbc/store.py: JdbcStore",
}

# The state of messages, of the overlay, of writers and of the journal: these modules own it.
OWNERS = (
    *("broker/entry.py", "journal/log.py", "journal/storage.py", "message/message.py"),
    *("stores/jdbc/writer/writer.py", "stores/journaled/overlay.py", "stores/journaled/transactions.py"),
    *("stores/journaled/writer.py", "stores/memory/shelf.py", "stores/memory/state.py"),
)

# The attributes of theirs that another module sets, and why.
OUTSIDE = {
    "database/connection.py": {"removes"},  # of the caller's own batch, before it is written
    "journal/log.py": {"taken"},  # a signal handler finds it set or not, never a call under way
    "stores/jdbc/writer/audited.py": {"adds"},  # of the caller's own batch
    "stores/jdbc/writer/writer.py": {"completion"},  # a method would cost a frame for each message
    # Each sets the overlay's marks while it holds the overlay's lock.
    "stores/journaled/checkpointer.py": {"written"},
    "stores/journaled/front.py": {
        "found",
        "journal",
        "journaled",
        "last_number",
        "last_sequence",
        "log",
        "mark",
        "written",
    },
    "stores/journaled/writer.py": {"journaled", "last_number", "last_sequence", "taken", "written"},
    "stores/replicated/follower.py": {"log"},
    "stores/journaled/transactions.py": {"is_decided"},  # under the transaction's own lock
    # The modules of the memory store share one state, under one lock.
    "stores/memory/destinations.py": {"last_sequence", "message", "size"},
    "stores/memory/store.py": {"changed", "closed", "find_body", "last_sequence", "mark", "recorded"},
}
DECODER = "message/openwire/decoder.py"
"""Fills in the message that it makes."""


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def functions() -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each function with its module and its class, if it is a method."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield module, node.name if isinstance(node, ast.ClassDef) else "", inner


def test_a_constructor_takes_few_things() -> None:
    """What belongs together is one value."""
    found = set()
    for module, owner, function in functions():
        each = function.args
        count = len(each.posonlyargs) + len(each.args) + len(each.kwonlyargs) - 1
        if function.name == "__init__" and count + bool(each.vararg) + bool(each.kwarg) > PARAMETERS:
            found.add(f"{module}: {owner}")
    assert found <= CONSTRUCTORS


def test_a_function_is_read_at_once() -> None:
    found = {
        f"{module}: {function.name}"
        for module, _, function in functions()
        if (function.end_lineno or 0) - function.lineno + 1 > LINES
    }
    assert found == set()


def test_a_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(list)
    for module, node in classes():
        # Django looks for a class of this name in each command, migration and model.
        if not node.name.startswith("_") and not (
            module.startswith("plugins/django/") and node.name in ("Command", "Meta", "Migration")
        ):
            homes[node.name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_the_state_of_a_message_has_one_owner() -> None:
    """Elsewhere it is an argument of the constructor, or a method says what happens."""
    owned = {name for module in OWNERS for name in declared(modules()[module])}
    outside = {
        f"{module}: {name}"
        for module, tree in modules().items()
        if module != DECODER
        for name in map(attribute, assigned(tree))
        if name in owned - declared(tree) - OUTSIDE.get(module, set())
    }
    assert outside == set()


def attribute(name: str) -> str:
    return name.rpartition(".")[2]


def assigned(tree: ast.Module) -> Iterator[str]:
    """Yield each attribute that is assigned on another object than self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not is_self(node.value):
            yield ast.unparse(node)


def is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def declared(tree: ast.Module) -> set[str]:
    """Return the attributes of a module's classes: annotated, in __slots__, or set on self."""
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                names.add(inner.target.id)
            elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                if is_self(inner.value):
                    names.add(inner.attr)
            elif isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == "__slots__":
                names.update(re.findall(r"'(\w+)'", ast.unparse(inner.value)))
    return names
