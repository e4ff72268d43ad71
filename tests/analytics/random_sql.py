"""Random questions, asked of a store and of the same rows as Python decodes them.

``python -m tests.analytics.random_sql --questions 500 --seed N`` is the long run, on every vendor.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jdbcstore.message import openwire
from tests.support.analytics.corpus import NAMES, CDatabase, IcuDatabase, Stored, corpus, fill
from tests.support.databases import Database, MariadbDatabase, MysqlDatabase, SqliteDatabase
from tests.support.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN = (
    "id BIGINT, container STRING, destination STRING, destination_type STRING, msgid_prod STRING,"
    " msgid_seq BIGINT, expiration BIGINT, priority BIGINT, xid STRING, message_size BIGINT,"
    " jms_type STRING, body_text STRING, properties MAP<STRING, STRUCT<long: BIGINT>>"
)


def plain(spark: SparkSession, stored: list[Stored]) -> DataFrame:
    """The rows as Python decodes them: nothing of them is in a database."""
    rows = []
    for each in stored:
        row, message = each.row, openwire.decode(each.row["MSG"])
        assert (message.jms_type, message.body) == (each.jms_type, each.body_text)
        number = message.properties.get("n")
        assert number == each.n
        rows.append(
            (
                *(row["ID"], row["CONTAINER"], row["CONTAINER"], row["CONTAINER"].partition("://")[0]),
                *(row[name] for name in ("MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "PRIORITY", "XID")),
                *(len(row["MSG"]), message.jms_type, message.body),
                {} if number is None else {"n": (each.n,)},
            )
        )
    return spark.createDataFrame(rows, _PLAIN)


@dataclass(frozen=True)
class Question:
    """SQL with the view's name left open, and its parameters."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)
    ordered: bool = False
    """Whether the order of the answer is part of it."""

    def __str__(self) -> str:
        return f"{self.sql}  {self.parameters}"


class Questions:
    """Random questions, the same for each seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._parameters: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Question]:
        while True:
            yield self._question()

    def _question(self) -> Question:
        dice, self._parameters = self._dice, {}
        kind = dice.choice((self._rows, self._rows, self._totals, self._groups, self._top, self._distinct))
        sql, ordered = kind()
        return Question(sql, self._parameters, ordered)

    def _rows(self) -> tuple[str, bool]:
        columns = {"id", self._column(), self._column()}
        return f"SELECT {', '.join(sorted(columns))} FROM {{view}}{self._where(1.0)}", False

    def _totals(self) -> tuple[str, bool]:
        return f"SELECT {self._aggregates()} FROM {{view}}{self._where(0.8)}", False

    def _groups(self) -> tuple[str, bool]:
        keys = ", ".join(sorted({self._column(), *([self._column()] if self._dice.random() < 0.3 else [])}))
        return f"SELECT {keys}, {self._aggregates()} FROM {{view}}{self._where(0.5)} GROUP BY {keys}", False

    def _top(self) -> tuple[str, bool]:
        columns = {"id", self._column()}
        keys = f"{self._order(self._column())}, {self._order('id')}"
        sql = f"SELECT {', '.join(sorted(columns))} FROM {{view}}{self._where(0.5)} ORDER BY {keys}"
        return sql + self._limit(), True

    def _distinct(self) -> tuple[str, bool]:
        column = self._column()
        where = self._where(0.3)
        return (
            f"SELECT DISTINCT {column} FROM {{view}}{where} ORDER BY {self._order(column)}{self._limit()}",
            True,
        )

    def _limit(self) -> str:
        offset = f" OFFSET {self._dice.randint(1, 5)}" if self._dice.random() < 0.3 else ""
        return f" LIMIT {self._dice.randint(1, 12)}{offset}"

    def _order(self, column: str) -> str:
        return (
            column
            + self._dice.choice(("", " ASC", " DESC"))
            + self._dice.choice(("", "", " NULLS FIRST", " NULLS LAST"))
        )

    def _column(self) -> str:
        return self._dice.choice((*(2 * self._texts), *self._numbers, "jms_type", "body_text"))

    _texts = ("destination", "msgid_prod", "xid", "destination_type")
    _numbers = ("id", "msgid_seq", "expiration", "priority", "properties['n'].long")

    def _aggregates(self) -> str:
        number, text = self._dice.choice(self._numbers), self._dice.choice(self._texts)
        every = (
            *("count(*)", f"count({text})", f"count(DISTINCT {text})", f"min({text})", f"max({text})"),
            *(f"min({number})", f"max({number})", "sum(priority)", "avg(priority)", f"count({number})"),
            *("sum(DISTINCT priority)", "sum(id)", f"count_if({self._condition(0)})"),
        )
        chosen = self._dice.sample(every, self._dice.randint(1, 3))
        return ", ".join(f"{each} AS a{place}" for place, each in enumerate(chosen))

    def _where(self, often: float) -> str:
        return f" WHERE {self._condition(2)}" if self._dice.random() < often else ""

    def _condition(self, depth: int) -> str:
        dice = self._dice
        if depth and dice.random() < 0.4:
            operator = dice.choice(("AND", "OR"))
            return f"({self._condition(depth - 1)} {operator} {self._condition(depth - 1)})"
        if depth and dice.random() < 0.2:
            return f"(NOT {self._condition(depth - 1)})"
        return dice.choice((self._of_texts, self._of_texts, self._of_numbers))()

    def _of_texts(self) -> str:
        dice = self._dice
        column = dice.choice((*(2 * self._texts), "jms_type", "body_text"))
        comparison = dice.choice(("=", "=", "<>", "<", "<=", ">", ">=", "<=>"))
        like = dice.choice(("startswith", "endswith", "contains"))
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{column} {comparison} {self._text(column)}",
            lambda: f"{column} {comparison} {self._text(column)}",
            lambda: f"{column} BETWEEN {self._text(column)} AND {self._text(column)}",
            lambda: f"{column} IN ({', '.join(self._text(column) for _ in range(dice.randint(1, 3)))})",
            lambda: f"{column} LIKE {self._pattern()}",
            lambda: f"{like}({column}, {self._part(column)})",
            lambda: f"{column} IS {dice.choice(('NULL', 'NOT NULL'))}",
            lambda: f"{column} = {dice.choice(self._texts)}",
            lambda: f"upper({column}) = upper({self._text(column)})",
            lambda: f"length({column}) > {dice.randint(5, 20)}",
            lambda: f"rtrim({column}) = {self._text(column)}",
        )
        return dice.choice(forms)()

    def _of_numbers(self) -> str:
        dice = self._dice
        column = dice.choice(self._numbers)
        comparison = dice.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
        number = self._given(dice.choice((0, 1, 4, 5, 9, 20, 2**40)))
        forms = (
            f"{column} {comparison} {number}",
            f"{column} IN (1, 4, {number})",
            f"{column} BETWEEN 1 AND {number}",
            f"{column} IS NULL",
            f"CAST({column} AS STRING) {comparison} '4'",
            f"CAST({column} AS STRING) LIKE '%1%'",
            f"CAST({column} AS DECIMAL(30, 2)) {comparison} 4.5",
            f"CAST({column} AS BOOLEAN)",
            f"CAST({column} AS DOUBLE) / 2 {comparison} 2",
            f"{column} % 3 = 1",
            f"priority {comparison} {dice.choice(self._numbers)}",
        )
        return dice.choice(forms)

    def _text(self, column: str) -> str:
        name = self._dice.choice(NAMES)
        kind = self._dice.choice(("queue://", "topic://")) if column == "destination" else ""
        return self._given(kind + name)

    def _part(self, column: str) -> str:
        name = self._dice.choice(NAMES)
        kind = self._dice.choice(("queue://", "queue://", "")) if column == "destination" else ""
        return self._given(kind + name[: self._dice.randint(1, 3)])

    def _pattern(self) -> str:
        part = self._dice.choice(
            ("ORD", "orders", "a", "A\\\\\\\\", "_", "\\_", "50\\%", "?", "[x]", "ä", "queue:")
        )
        before, behind = (self._dice.choice(("%", "%", "")) for _ in range(2))
        return f"'{before}{part.replace(chr(92), chr(92) * 2)}{behind}'"

    def _given(self, value: Any) -> str:
        """As a parameter, or as a literal."""
        if self._dice.random() < 0.6:
            name = f"p{len(self._parameters)}"
            self._parameters[name] = value
            return f":{name}"
        quoted = str(value).replace("\\", "\\\\").replace("'", "\\'")
        return str(value) if isinstance(value, int) else f"'{quoted}'"


def answer(spark: SparkSession, question: Question, view: str) -> list[str] | str:
    """The rows as texts; of an error, that there is one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows = spark.sql(question.sql.replace("{view}", view), args=question.parameters).collect()
    except (PySparkException, Py4JJavaError) as error:
        return f"fails: {str(error).strip().splitlines()[0][:200]}"
    texts = [repr(tuple(row)) for row in rows]
    return texts if question.ordered else sorted(texts)


class Oracle:
    """What is right, found once for every vendor."""

    def __init__(self, spark: SparkSession) -> None:
        self.stored = corpus()
        self._spark = spark
        self._answers: dict[str, list[str] | str] = {}
        plain(spark, self.stored).createOrReplaceTempView("plain_messages")

    def answer(self, question: Question) -> list[str] | str:
        key = str(question)
        if key not in self._answers:
            self._answers[key] = answer(self._spark, question, "plain_messages")
        return self._answers[key]

    def difference(self, question: Question) -> str | None:
        """How the connected store answers wrongly."""
        right = self.answer(question)
        said = answer(self._spark, question, "messages_decoded")
        if said == right or (isinstance(said, str) and isinstance(right, str)):
            return None
        return f"{question}\n  right: {_short(right)}\n  said:  {_short(said)}"


def _short(found: list[str] | str) -> str:
    return found if isinstance(found, str) else f"{len(found)} rows {found[:4]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="sqlite, c, icu, mariadb or mysql")
    options = parser.parse_args()
    from jdbcstore import analytics
    from tests.support.servers import MariadbServer, MysqlServer, PostgresqlServer

    spark = analytics.session(
        "local[2]",
        **{"spark.driver.defaultJavaOptions": " ".join(QUICK), "spark.sql.shuffle.partitions": "2"},
    )
    oracle, wrong = Oracle(spark), 0
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        os.chmod(folder, 0o755)  # noqa: S103 - for a server of another user

        def server(kind: Any) -> Any:
            made = kind()
            opened.callback(made.close)
            return made.url

        makers: dict[str, Callable[[], Database]] = {
            "sqlite": lambda: SqliteDatabase(folder),
            "c": lambda: CDatabase(server(PostgresqlServer)),
            "icu": lambda: IcuDatabase(server(PostgresqlServer)),
            "mariadb": lambda: MariadbDatabase(server(MariadbServer)),
            "mysql": lambda: MysqlDatabase(server(MysqlServer)),
        }
        for name, make in makers.items():
            if options.only not in (None, name):
                continue
            database = make()
            opened.callback(database.close)
            fill(database, oracle.stored)
            with analytics.connect(spark, database.url):
                for _, question in zip(range(options.questions), Questions(options.seed), strict=False):
                    found = oracle.difference(question)
                    if found is not None:
                        wrong += 1
                        sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.write(f"{name}: {options.questions} questions of seed {options.seed}\n")
            sys.stdout.flush()
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
