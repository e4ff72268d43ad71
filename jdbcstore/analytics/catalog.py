"""The catalog ``jdbcstore`` of a session: names of three parts for the views of named stores."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.pushdown import CATALOG, load_classes
from jdbcstore.analytics.views import NAMESPACE, names_of
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = f"spark.sql.catalog.{NAMESPACE}"


def name_views(spark: SparkSession, store: str) -> None:
    """Let SQL say ``jdbcstore.orders.messages`` for the temporary view of that name.

    :raises ConfigurationError: the user has a catalog of the name ``jdbcstore``
    """
    check_catalog(spark)
    java: Any = spark._jvm
    session: Any = spark._jsparkSession
    loader = load_classes(spark)
    spark.conf.set(_SETTING, CATALOG)
    put = loader.loadClass(CATALOG)
    views = session.sessionState().catalog()
    probe = f"jdbcstore_{uuid.uuid4().hex}"
    methods = {method.getName(): method for method in put.getMethods()}
    for name in names_of(store):
        spark.sql(f"CREATE TEMPORARY VIEW {probe} AS SELECT * FROM `{name}`")  # noqa: S608 - both are ours
        try:
            definition = views.getTempView(probe).get().desc()
        finally:
            spark.catalog.dropTempView(probe)
        # Without it each column would be cast to its own type, and no total left to the database.
        properties = definition.properties().updated("view.schemaMode", "TYPE EVOLUTION")
        arguments = spark.sparkContext._gateway.new_array(java.Object, 3)  # type: ignore[union-attr]
        arguments[0], arguments[1], arguments[2] = name, definition, properties
        methods["put"].invoke(None, arguments)


def check_catalog(spark: SparkSession) -> None:
    """Check that the name ``jdbcstore`` is free for our catalog.

    :raises ConfigurationError: the user has a catalog of this name
    """
    if spark.conf.get(_SETTING, CATALOG) != CATALOG:
        raise ConfigurationError(
            f"this Spark session has a catalog {NAMESPACE} already ({_SETTING}); connect without a name, or"
            " in a session without that setting"
        )
