"""A command that puts small defects into one module, one at a time, and prints those that no test notices.

``python -m tests.mutations jdbcstore/broker/queues/redelivery.py tests/broker/test_dead_letters.py``. Each
mutant exists in memory only, in a process that is forked for it: no file is changed, and a program that a
test starts by itself has the module as it is. Tests that take longer than twice their usual time have
noticed the defect, too. Beside operators and constants, a mutant leaves out a statement or calls the opposite
method, as ``acknowledge`` in place of ``reject``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing.connection import wait
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
import sqlalchemy  # noqa: F401 - imported once, before the processes are forked

_COMPARISONS: dict[type[ast.cmpop], Sequence[type[ast.cmpop]]] = {
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn], ast.NotIn: [ast.In],  # codespell:ignore notin
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
_PAIRS = [
    ("acknowledge", "reject"), ("commit", "rollback"), ("append", "appendleft"), ("pop", "popleft"),
    ("add", "discard"), ("add", "remove"), ("min", "max"), ("any", "all"), ("set_result", "cancel"),
]  # fmt: skip
_OPPOSITES = {one: other for pair in reversed(_PAIRS) for one, other in (pair, pair[::-1])}
_LIMIT = 16
"""A number from here on is a limit or a unit, of which one more is mostly no defect."""
_SILENT = {"log", "warnings"}
"""Names whose methods are called for readers of a log."""


class Mutant(NamedTuple):
    """One defect: the place and the words of it, and the module with it."""

    line: int
    before: str
    after: str
    code: CodeType


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    tree = ast.parse(path.read_text())
    for owner, field, node in _places(tree):
        for changed in _changes(node):
            ast.fix_missing_locations(ast.copy_location(changed, node))
            _put(owner, field, node, changed)
            yield Mutant(
                getattr(node, "lineno", 0), _words(node), _words(changed), compile(tree, str(path), "exec")
            )
            _put(owner, field, changed, node)


def _places(owner: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    for field, value in ast.iter_fields(owner):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _is_silent(node):
                yield owner, field, node
                yield from _places(node)


def _is_silent(node: ast.AST) -> bool:
    """Return whether nothing but a docstring, a message or a check of types is in it."""
    if not isinstance(node, ast.Expr):
        return isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr)
    call = node.value
    if not isinstance(call, ast.Call):
        return isinstance(call, ast.Constant)
    words = ast.unparse(call.func).split(".")
    return not _SILENT.isdisjoint(words) or words[-1].startswith("_log")


def _put(owner: ast.AST, field: str, old: ast.AST, new: ast.AST) -> None:
    value = getattr(owner, field)
    if isinstance(value, list):
        value[next(at for at, one in enumerate(value) if one is old)] = new
    else:
        setattr(owner, field, new)


def _words(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:100]


def _changes(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - a table
    """Yield what may stand in the place of a node."""
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.If() | ast.While() if not isinstance(node.test, ast.Compare):
            yield type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.IfExp() if not isinstance(node.test, ast.Compare):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Compare(ops=[one], comparators=[right]):
            for other in _COMPARISONS[type(one)]:
                yield ast.Compare(node.left, [other()], [right])
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)) if abs(value) < _LIMIT:
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Attribute() as method) if method.attr in _OPPOSITES:
            opposite = ast.Attribute(method.value, _OPPOSITES[method.attr], ast.Load())
            yield ast.Call(opposite, node.args, node.keywords)
        case ast.Call(func=ast.Name() as name) if name.id in _OPPOSITES:
            yield ast.Call(ast.Name(_OPPOSITES[name.id], ast.Load()), node.args, node.keywords)


class _Mutated(SourceFileLoader):
    """Finds and loads one module with other code than that in its file."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        super().__init__(name, str(path))
        self._code = code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self._code


def _run(name: str, path: Path, code: CodeType, tests: list[str]) -> None:
    """Run the tests in this new process, and end it with their exit code."""
    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(quiet, descriptor)
    sys.meta_path.insert(0, _Mutated(name, path, code))
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
    status = pytest.main([*options, *tests])
    os._exit(status)


class _Trial:
    """A process that runs the tests with a mutant, or with the module as it is."""

    def __init__(self, name: str, path: Path, mutant: Mutant, tests: list[str]) -> None:
        self.mutant = mutant
        self.began = time.monotonic()
        self.process = multiprocessing.get_context("fork").Process(
            target=_run, args=(name, path, mutant.code, tests)
        )
        self.process.start()

    def end(self) -> int | None:
        """End it with the programs that it has started; return its exit code, or None if it had not ended."""
        running = self.process.is_alive()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        return None if running else self.process.exitcode


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("module", type=Path, help="its file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--lines", default="1-1000000", help="mutate these only, as 10-90")
    parser.add_argument("--every", type=int, default=1, help="try every second one only, or third, ...")
    arguments, tests = parser.parse_known_args()
    path = arguments.module
    name = ".".join(path.with_suffix("").parts)
    if name.endswith("_cy"):
        os.environ["JDBCSTORE_PURE"] = "1"
    first, last = map(int, arguments.lines.split("-"))
    untouched = Mutant(0, "", "", compile(path.read_text(), str(path), "exec"))
    trial = _Trial(name, path, untouched, tests)
    trial.process.join()
    if trial.end() != 0:
        parser.error("the tests do not pass with the module as it is")
    limit = 5 + 2 * (time.monotonic() - trial.began)

    waiting = [mutant for mutant in mutants(path) if first <= mutant.line <= last][:: arguments.every]
    total, survivors = len(waiting), 0
    running: list[_Trial] = []
    while waiting or running:
        while waiting and len(running) < arguments.processes:
            running.append(_Trial(name, path, waiting.pop(0), tests))
        wait([trial.process.sentinel for trial in running], timeout=1)
        for trial in [*running]:
            if trial.process.is_alive() and time.monotonic() - trial.began < limit:
                continue
            running.remove(trial)
            if trial.end() == 0:
                survivors += 1
                was, now = trial.mutant.before, trial.mutant.after
                _say(f"{path}:{trial.mutant.line}: {was}  ->  {now}")
    _say(f"{total} mutants, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
