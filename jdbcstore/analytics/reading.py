"""One way of reading a store through JDBC: the options of its connections, and frames of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jdbcstore.analytics.answers import connecting
from jdbcstore.analytics.dialect import DRIVER
from jdbcstore.analytics.queries import as_text
from jdbcstore.analytics.vendors import Vendor
from jdbcstore.database.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlalchemy import Select, Table

_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"


@dataclass(frozen=True, slots=True)
class Source:
    """A store's database as Spark reads it. The catalog is Spark's: it pushes aggregates and limits down."""

    spark: SparkSession
    session: Session
    vendor: Vendor
    url: str
    """As Spark has to call it: see :func:`jdbcstore.analytics.dialect.teach`."""
    catalog: str
    fetch_size: int

    def open_catalog(self) -> None:
        """Let Spark make its catalog; it keeps what it needs, and the login leaves the configuration."""
        pushed = {f"pushDown{what}": "true" for what in ("Aggregate", "Limit", "Offset", "TableSample")}
        options = {"": _CATALOG, "url": self.url, "driver": DRIVER, **pushed, **self._login}
        names = {f"spark.sql.catalog.{self.catalog}{name and '.'}{name}": v for name, v in options.items()}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            with connecting():
                self.spark.sql(f"SHOW NAMESPACES IN {self.catalog}")
        finally:
            for name in names:
                self.spark.conf.unset(name)

    @property
    def _login(self) -> dict[str, str]:
        url = self.session.engine.url
        login = {"user": url.username, "password": url.password}
        return {name: str(value) for name, value in login.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Reading:
    """Frames of one source, whose connections all run ``init`` first, if there is any."""

    source: Source
    init: str

    def table(self, table: Table) -> DataFrame:
        """A table through the catalog, read as one statement; columns under their lower-case names."""
        source = self.source
        return _lower(source.spark.read.options(**self._options).table(self.name_of(table)))

    def name_of(self, table: Table) -> str:
        """The table's name in Spark's catalog."""
        source, engine = self.source, self.source.session.engine
        schema = engine.dialect.default_schema_name
        parts = (source.catalog, *source.vendor.namespace(engine.url, schema), str(table.name))
        return ".".join(f"`{part.replace('`', '``')}`" for part in parts)

    def query(self, query: Select[tuple[object, ...]], types: str) -> DataFrame:
        """What the database answers to a query of ours, in Spark's types: no driver knows them all."""
        text = as_text(query, self.source.session.engine.dialect)
        return _lower(self._reader.options(dbtable=f"({text}) answer", customSchema=types).load())

    def slices(self, table: Table, bounds: list[int]) -> DataFrame:
        """A table in one partition more than there are bounds, which are IDs; there is one at least."""
        prepare = self.source.session.engine.dialect.identifier_preparer
        name, id_ = prepare.format_table(table), prepare.format_column(table.c.id)
        starts, ends = [None, *bounds], [*bounds, None]
        predicates = []
        for start, end in zip(starts, ends, strict=True):
            sides = ([] if start is None else [f"{id_} >= {start}"]) + (
                [] if end is None else [f"{id_} < {end}"]
            )
            predicates.append(" AND ".join(sides))
        return self.partitions(name, predicates)

    def partitions(self, name: str, predicates: list[str]) -> DataFrame:
        """A table, or a query in brackets, in one partition for each condition."""
        options = {**self._options, **self.source._login, "driver": DRIVER}
        read = self.source.spark.read
        return _lower(read.jdbc(self.source.url, name, predicates=predicates, properties=options))

    @property
    def _options(self) -> dict[str, str]:
        first = {"sessionInitStatement": self.init} if self.init else {}
        return {**first, "fetchsize": str(self.source.fetch_size)}

    @property
    def _reader(self):  # type: ignore[no-untyped-def]
        source = self.source
        reader = source.spark.read.format("jdbc").options(url=source.url, driver=DRIVER)
        return reader.options(**source._login, **self._options)


def _lower(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(name.lower() for name in frame.columns))
