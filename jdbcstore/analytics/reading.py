"""DataFrames of the tables over JDBC: through the catalog, as partitions, or by ranges of IDs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.pushdown import DRIVER, load_classes
from jdbcstore.analytics.queries import as_text, between, count_ids, cut, last_id, nth_id, sizes, stored
from jdbcstore.analytics.questions import connecting
from jdbcstore.analytics.vendors import Vendor, vendor_of
from jdbcstore.database.session import DatabaseSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlalchemy import Select, Table


_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"


@dataclass(frozen=True, slots=True)
class JdbcReading:
    """DataFrames of one database. Spark's own JDBC catalog pushes aggregates and limits down."""

    spark: SparkSession
    session: DatabaseSession
    url: str
    """The URL that Spark uses: see :func:`jdbcstore.analytics.pushdown.register_dialect`."""
    properties: dict[str, str] = field(repr=False)
    """Properties of its connections: the login, the identity of the database, and the fetch size."""
    schema: str
    """The schema of the tables; empty: the database does not have schemas."""
    catalog: str
    init: str = ""
    """The first statement of each connection; empty: none."""

    @property
    def vendor(self) -> Vendor:
        return vendor_of(self.session.adapter.name)

    def open_catalog(self) -> None:
        """Create Spark's catalog; the login is removed from the configuration afterwards."""
        pushed = {f"pushDown{what}": "true" for what in ("Aggregate", "Limit", "Offset", "TableSample")}
        options = {"": _CATALOG, "url": self.url, "driver": DRIVER, **pushed, **self.properties}
        names = {f"spark.sql.catalog.{self.catalog}{name and '.'}{name}": v for name, v in options.items()}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            with connecting():
                self.spark.sql(f"SHOW NAMESPACES IN {self.catalog}")
        finally:
            for name in names:
                self.spark.conf.unset(name)

    def check(self) -> None:
        """Connect as Spark does.

        :raises ConfigurationError: the JDBC driver reaches another database than the Python driver
        :raises StoreUnavailable: it reaches none
        """
        loader = load_classes(self.spark)
        java: Any = self.spark._jvm
        properties = java.java.util.Properties()
        for name, value in self.properties.items():
            properties.setProperty(name, value)
        none = self.spark.sparkContext._gateway.new_array(java.Object, 0)  # type: ignore[union-attr]
        driver = loader.loadClass(DRIVER).getConstructors()[0].newInstance(none)
        with connecting():
            driver.connect(self.url, properties).close()

    def table(self, table: Table) -> DataFrame:
        """Read a table through the catalog, in one statement; column names are in lower case."""
        return self._read(self.spark.read.options(**self._options).table(self.name_of(table)))

    def name_of(self, table: Table) -> str:
        """Return the table's name in Spark's catalog."""
        parts = (self.catalog, *([self.schema] if self.schema else []), str(table.name))
        return ".".join(f"`{part.replace('`', '``')}`" for part in parts)

    def text(self, query: Select[Any]) -> str:
        """Return the query in SQL, with the schema of its tables."""
        return as_text(query, self.session.engine.dialect, self.schema)

    def query(self, query: Select[tuple[object, ...]], types: str) -> DataFrame:
        """Run a query of ours, its columns cast to these Spark types, which no driver reports in full."""
        reader = self.spark.read.format("jdbc").options(**self._jdbc_options, url=self.url)
        return self._read(reader.options(dbtable=f"({self.text(query)}) answer", customSchema=types).load())

    def slices(self, table: Table, bounds: list[int]) -> DataFrame:
        """Read a table in partitions divided at these IDs, of which there is at least one."""
        prepare = self.session.engine.dialect.identifier_preparer
        id_ = prepare.format_column(table.c.id)
        predicates = [
            f"{id_} < {bounds[0]}",
            *(f"{id_} >= {start} AND {id_} < {end}" for start, end in pairwise(bounds)),
            f"{id_} >= {bounds[-1]}",
        ]
        names = [prepare.quote_schema(self.schema)] if self.schema else []
        return self.partitions(".".join([*names, prepare.format_table(table)]).replace("%%", "%"), predicates)

    def partitions(self, name: str, predicates: list[str]) -> DataFrame:
        """Read a table, or a query in parentheses, in one partition per predicate."""
        read = self.spark.read
        return self._read(read.jdbc(self.url, name, predicates=predicates, properties=self._jdbc_options))

    def _read(self, frame: DataFrame) -> DataFrame:
        """Return the columns by names in lower case."""
        return frame.toDF(*(name.lower() for name in frame.columns))

    @property
    def _options(self) -> dict[str, str]:
        return {"sessionInitStatement": self.init} if self.init else {}

    @property
    def _jdbc_options(self) -> dict[str, str]:
        return {**self._options, **self.properties, "driver": DRIVER}


RAW = ("id", "container", "msgid_prod", "msgid_seq", "expiration", "priority", "msg")


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The messages of one store that are not in doubt, by ranges of IDs.

    Tasks read their ranges in separate statements, so the ranges do not show one moment; but no row is in
    two."""

    reading: JdbcReading

    def last_id(self) -> int:
        """Return the highest ID; -1 in an empty table."""
        return self._ids(last_id(self.reading.session.tables))[0]

    def count(self) -> int:
        """Return the number of messages, including those in doubt."""
        return self._ids(count_ids(self.reading.session.tables))[0]

    def ranges(self, after: int, up_to: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of ``count`` messages from ``after``, exclusive, to ``up_to``, inclusive."""
        tables = self.reading.session.tables
        while after < up_to:
            [end] = self._ids(nth_id(tables, count - 1, *between(tables, after, up_to))) or [up_to]
            yield after, end
            after = end

    def cut(self, after: int, up_to: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield parts of a range, of ``most`` bytes each, or of one message if that is larger."""
        tables = self.reading.session.tables
        sized = self._rows(sizes(tables, *between(tables, after, up_to)))
        for run in cut(sized, most):
            yield after, run[-1]
            after = run[-1]

    def frame(self, ranges: list[tuple[int, int]], *, acknowledged: bool = False) -> DataFrame:
        """Read the columns :data:`RAW` of these ranges, one partition per range.

        ``acknowledged``: only messages that every durable subscription of their topic has acknowledged.
        """
        session = self.reading.session
        query = stored(session.tables, session.adapter, ours=session.has_own_tables, done=acknowledged)
        id_ = session.engine.dialect.identifier_preparer.quote(session.tables.messages.c.id.name)
        frame = self.reading.partitions(
            f"({self.reading.text(query)}) stored_rows",
            [f"{id_} > {after} AND {id_} <= {up_to}" for after, up_to in ranges],
        )
        return frame.select(*RAW)

    def _ids(self, query: Select[Any]) -> list[int]:
        return [int(id_) for (id_,) in self._rows(query)]

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        session = self.reading.session
        with session.translated(), session.engine.connect() as connection:
            return connection.execute(query).all()
