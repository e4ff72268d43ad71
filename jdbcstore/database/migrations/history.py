"""The revisions, in their order; and where their scripts are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic.script import ScriptDirectory

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import Step
from jdbcstore.database.schema import HEAD
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError

Steps = Callable[[Tables, Adapter], Sequence[Step]]
ACTIVEMQ = "activemq"
"""Stands for ActiveMQ's own tables alone, at their latest revision."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of the schema, and the steps to it from the one before."""

    id: str
    title: str
    steps: Steps
    drops: Steps
    """The steps back."""

    @property
    def is_ours(self) -> bool:
        """Whether the schema has tables of our own by then."""
        return not self.id.startswith(ACTIVEMQ)


def environment() -> Path:
    """The Alembic environment: beside the package in a source tree, and inside it where installed."""
    package = Path(__file__).parents[2]
    installed = package / "migrations"
    return installed if installed.exists() else package.parent / "migrations"


def revisions() -> list[Revision]:
    """All revisions, the oldest first."""
    scripts = ScriptDirectory(str(environment()))
    return [
        Revision(script.revision, str(script.doc), script.module.steps, script.module.drops)
        for script in reversed([*scripts.walk_revisions()])
    ]


def position(history: Sequence[Revision], name: str) -> int:
    """Where a revision stands; ``head`` and ``activemq`` are the latest of all, and of ActiveMQ's own.

    :raises ConfigurationError: there is none of this name
    """
    names = [revision.id for revision in history]
    if name == "head":
        return names.index(HEAD)
    if name == ACTIVEMQ:
        return max(index for index, revision in enumerate(history) if not revision.is_ours)
    if name not in names:
        raise ConfigurationError(
            f"there is no revision {name!r}; choose head, {ACTIVEMQ}, {', '.join(names)}"
        )
    return names.index(name)
