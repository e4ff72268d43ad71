"""Views under the same names, of one store after the other: what is shown now, and what is behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Views = dict[str, "DataFrame"]

_stacks: dict[str, list[Views]] = {}
"""By session, what was put up and not taken away yet; the last is what is seen."""


_MARK = "spark.jdbcstore.shown.{}"
"""In the session, which may outlive the process: the plan of the view of this name that is ours."""


class Shown:
    """The views of one session. Whatever else is there under their names stays as it is."""

    def __init__(self, spark: SparkSession, names: tuple[str, ...]) -> None:
        self._spark = spark
        self._names = names
        session: Any = spark._jsparkSession
        self._key = f"{spark.sparkContext.applicationId}/{session.sessionUUID()}"

    def put(self, views: Views) -> None:
        """Show these.

        :raises ConfigurationError: a name is taken by a view that is no store's
        """
        stack = _stacks.setdefault(self._key, [])
        for name in self._names:
            if self._is_there(name) and not (
                (stack and self._is_same(name, stack[-1])) or self._is_left_behind(name)
            ):
                raise ConfigurationError(
                    f"this Spark session has a view {name} already, which is not of a message store; drop it,"
                    " or connect in a session of its own, spark.newSession()"
                )
        stack.append(views)
        self._show(views)

    def take(self, views: Views) -> None:
        """Show them no more, but what was shown before if they were the last; a second time is no error."""
        stack = _stacks.get(self._key, [])
        places = [place for place, each in enumerate(stack) if each is views]
        if not places:
            return
        seen = places == [len(stack) - 1]
        del stack[places[0]]
        if not stack:
            del _stacks[self._key]
        if not seen:
            return
        mine = [name for name in self._names if self._is_there(name) and self._is_same(name, views)]
        if stack:
            self._show({name: stack[-1][name] for name in mine})
        else:
            for name in mine:
                self._spark.catalog.dropTempView(name)

    @contextmanager
    def while_in(self, views: Views) -> Iterator[None]:
        """Show these within the block."""
        self.put(views)
        try:
            yield
        finally:
            self.take(views)

    def _show(self, views: Views) -> None:
        for name, frame in views.items():
            frame.createOrReplaceTempView(name)
            self._spark.conf.set(_MARK.format(name), str(self._spark.table(name).semanticHash()))

    def _is_there(self, name: str) -> bool:
        session: Any = self._spark._jsparkSession
        return bool(session.sessionState().catalog().getTempView(name).isDefined())

    def _is_left_behind(self, name: str) -> bool:
        """Whether the view is one that a process which is gone has put up in the same Java."""
        mark = self._spark.conf.get(_MARK.format(name), None)
        return mark == str(self._spark.table(name).semanticHash())

    def _is_same(self, name: str, views: Views) -> bool:
        """Whether the view that is there is one of these, and not what somebody put in its place."""
        return self._spark.table(name).sameSemantics(views[name])
