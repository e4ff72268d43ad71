"""What a database has, asked through ``java.sql.DatabaseMetaData``: the same for every vendor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Metadata:
    """The tables in the connection's own schema. Names are found whatever their case."""

    def __init__(self, connection: Any) -> None:
        self._java = connection.java
        self._data = connection.java.getMetaData()

    def table_names(self) -> list[str]:
        names = []
        for row in _rows(self._data.getTables(self._catalog(), self.schema(), "%", ["TABLE", "BASE TABLE"])):
            names.append(row["TABLE_NAME"])
        return names

    def table(self, name: str) -> str | None:
        """The table's name as the database has it; None if there is none."""
        names = self.table_names()
        return name if name in names else next((n for n in names if n.lower() == name.lower()), None)

    def columns(self, table: str) -> list[dict[str, Any]]:
        found = self._data.getColumns(self._catalog(), self.schema(), self._pattern(table), "%")
        return [row for row in _rows(found) if row["TABLE_NAME"] == table]

    def primary_key(self, table: str) -> tuple[str | None, list[str]]:
        """Its name, and its columns in order."""
        rows = list(_rows(self._data.getPrimaryKeys(self._catalog(), self.schema(), table)))
        rows.sort(key=lambda row: int(row["KEY_SEQ"]))
        return (rows[0]["PK_NAME"] if rows else None), [row["COLUMN_NAME"] for row in rows]

    def indexes(self, table: str) -> dict[str, tuple[bool, list[str]]]:
        """Name -> whether it is unique, and its columns in order."""
        rows = [
            row
            for row in _rows(self._data.getIndexInfo(self._catalog(), self.schema(), table, False, True))
            if row["INDEX_NAME"] is not None
        ]
        rows.sort(key=lambda row: int(row["ORDINAL_POSITION"]))
        found: dict[str, tuple[bool, list[str]]] = {}
        for row in rows:
            unique = row["NON_UNIQUE"] in ("0", "false", "FALSE")
            found.setdefault(row["INDEX_NAME"], (unique, []))[1].append(row["COLUMN_NAME"])
        return found

    def schema(self) -> str | None:
        name = self._java.getSchema()
        return None if name is None else str(name)

    def _catalog(self) -> str | None:
        name = self._java.getCatalog()
        return str(name) if name else None

    def _pattern(self, name: str) -> str:
        escape = str(self._data.getSearchStringEscape() or "")
        return name.replace("_", f"{escape}_") if escape else name


def _rows(result: Any) -> Iterator[dict[str, Any]]:
    """Every column as a text, or None."""
    meta = result.getMetaData()
    names = [str(meta.getColumnLabel(index)) for index in range(1, meta.getColumnCount() + 1)]
    try:
        while result.next():
            values = [result.getString(index) for index in range(1, len(names) + 1)]
            yield {n: None if v is None else str(v) for n, v in zip(names, values, strict=True)}
    finally:
        result.close()
