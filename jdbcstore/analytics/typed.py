"""Properties as columns of their own, each of one type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TYPES: dict[str, Any] = {
    "boolean": lambda value: value["boolean"],
    "long": lambda value: value["long"],
    "double": lambda value: F.coalesce(value["double"], value["long"].cast("double")),
    "string": lambda value: value["text"],
    "bytes": lambda value: value["bytes"],
    "timestamp": lambda value: F.timestamp_millis(value["long"]),
}


def with_properties(frame: DataFrame, types: Mapping[str, str | tuple[str, str]]) -> DataFrame:
    """Add a column for each of these properties, with its type, or with the property's name and its type.

    A type is ``boolean``; ``long``, of all integers; ``double``, of all numbers; ``string``, of all values;
    ``bytes``; or ``timestamp``, of epoch milliseconds. A message without the property, or with a value of
    another type, has null.

    >>> orders = analytics.with_properties(spark.table("messages_decoded"), {"pints": "long"})
    >>> orders = analytics.with_properties(orders, {"order_type": ("type", "string")})

    :param frame: it has the column ``properties``, as ``messages_decoded`` and archives have
    :raises ConfigurationError: a type is not one of these, or two columns would have the same name, in
        letters of any case
    """
    columns: dict[str, Column] = {}
    present = {name.lower() for name in frame.columns}
    for name, given in types.items():
        property_, type_ = (name, given) if isinstance(given, str) else given
        if type_ not in _TYPES:
            raise ConfigurationError(
                f"the property {property_} cannot be {type_!r}; choose one of {', '.join(_TYPES)}",
                option="types",
            )
        if name.lower() in present:
            raise ConfigurationError(
                f"there is a column {name} already; give the property another name:"
                f" {{'my_{name}': ('{property_}', '{type_}')}}",
                option="types",
            )
        present.add(name.lower())
        columns[name] = _TYPES[type_](F.col("properties")[F.lit(property_)])
    return frame.withColumns(columns)
