"""The views of a store in a session of Spark Connect, whose server reads through our own data source."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore.analytics.arrow.table import RAW
from jdbcstore.analytics.arrow.views import OF_MESSAGES, SCHEMAS
from jdbcstore.analytics.connected import Analytics, bounds_of, exported, needs_java
from jdbcstore.analytics.decoding import decoded_columns
from jdbcstore.analytics.streaming.options import task_url
from jdbcstore.analytics.vendors import vendor_of
from jdbcstore.analytics.views import Shown, Views, gone, waiting
from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.adapters.registry import adapter_for
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import ConfigurationError, QueryFailed, SchemaError, StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PARTITIONS = 4
"""Partitions of a picture; the number of the server's cores is not known here."""


class RemoteAnalytics(Analytics):
    """The views of one store, read by the tasks of the server of Spark Connect.

    Columns are decoded when a query reads them, but a view of decoded messages reads MSG in any case.
    """

    def __init__(self, spark: SparkSession, where: Configuration, name: str | None) -> None:
        from jdbcstore.analytics.format import register  # a slow import that only such a session needs

        self.spark = spark
        self._where = where
        with where.locating_errors():
            url, user, password = where.login()
            self._vendor = vendor_of(adapter_for(url, where.store.adapter)[0].name)
            login = {"url": task_url(url, where.store), "user": user, "password": password}
        self._options = {
            **{option: value for option, value in login.items() if value is not None},
            **_changed(where.store),
        }
        register(spark)
        self._check()
        self._shown = Shown(spark, name)
        self._live = self._shown.put(self._define())

    def _check(self) -> None:
        """Ask the database for a message, by the server.

        :raises StoreError: the database does not answer, or does not have the tables
        """
        with explained():
            self._load(view="messages", columns="id").where("id = -1").collect()

    def _load(self, **options: str) -> DataFrame:
        return self.spark.read.format("jdbcstore").options(**self._options, **options).load()

    def _define(self, **moment: str) -> Views:
        views = {}
        for view in SCHEMAS:
            if view in OF_MESSAGES - {"messages"}:
                # By their names: for its columns, a DataFrame would ask the server.
                rows = self._load(view=view, decoded="false", **moment)
                views[view] = rows.select(*RAW[:-1], *decoded_columns(F.col("msg")))
            else:
                views[view] = self._load(view=view, **moment)
        views["history"] = waiting(views["messages_decoded"]).union(gone(views.pop("removed")))
        return views

    def close(self) -> None:
        self._shown.remove(self._live)

    def explained(self) -> contextlib.AbstractContextManager[None]:
        return explained()

    def include(self, archived: DataFrame) -> None:  # noqa: ARG002
        raise needs_java()

    @contextlib.contextmanager
    def picture(self, partitions: int | None = None, *, snapshot: bool = True) -> Iterator[None]:
        if snapshot and not self._vendor.export:
            with self._shown.while_in(self._define()):
                yield
            return
        session = DatabaseSession.configured(self._where, read_only=True)
        try:
            bounds = ",".join(map(str, bounds_of(session, partitions or _PARTITIONS)))
            with (
                exported(session, self._vendor) if snapshot else contextlib.nullcontext("") as name,
                self._shown.while_in(self._define(snapshot=name, bounds=bounds)),
            ):
                yield
        finally:
            session.close()


def _changed(store: StoreConfig) -> dict[str, str]:
    """Return the options that differ from their defaults, as the data source takes them."""
    return {
        each.name: str(value)
        for each in fields(StoreConfig)
        if (value := getattr(store, each.name)) != each.default and isinstance(value, str | int | float)
    }


_ERRORS: dict[str, Any] = {
    error.__name__: error for error in (ConfigurationError, SchemaError, StoreUnavailable)
}
_SAID = re.compile(r"^(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
"""The last line of a traceback."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Translate an error of the server in the block to our data source's error there.

    :raises ConfigurationError: a package is missing there
    :raises QueryFailed: it was another
    """
    try:
        yield
    except PySparkException as error:
        first, *rest = str(error).strip().splitlines()
        errors = _SAID.findall("\n".join(rest))
        if not errors:
            raise QueryFailed(first) from error
        name, said = errors[-1]
        if name == "ModuleNotFoundError":
            raise ConfigurationError(
                f"the Python of Spark Connect's server or of its workers says: {said}; run pip install"
                " 'jdbcstore[spark]' there, and install the database's driver"
            ) from error
        raise _ERRORS.get(name, QueryFailed)(said) from error
