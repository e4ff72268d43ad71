"""The meaning of the error codes of each server, and of SQLSTATE: data for the adapters.

A code means the same for every statement, also for one that commits: COMMIT, or a statement in autocommit
mode. All but :attr:`Failure.UNKNOWN` and :attr:`Failure.DISCONNECTED` say that it had no effect. A code that
is not listed is :attr:`Failure.UNKNOWN`: list one only if the server certainly rolls back when it answers it.
"""

from __future__ import annotations

from collections.abc import Mapping

from jdbcstore.database.adapters.base import Failure

STATES: Mapping[str, Failure] = {
    "23505": Failure.DUPLICATE,
    "22001": Failure.BAD_VALUE,
    **dict.fromkeys(("42P01", "42703", "42S02", "42S22", "42704"), Failure.NO_TABLE),
    "57011": Failure.FULL,
    "HYT00": Failure.TRANSIENT,  # lock timeout
    # Transaction resolution unknown, with a connection that is lost; statement completion unknown.
    "08007": Failure.DISCONNECTED,
    "40003": Failure.UNKNOWN,
    "25006": Failure.READ_ONLY,
}
_STATE_CLASSES: Mapping[str, Failure] = {
    "08": Failure.DISCONNECTED,
    "22": Failure.BAD_VALUE,
    "23": Failure.BAD_VALUE,
    "28": Failure.REFUSED,
    "40": Failure.TRANSIENT,
    "53": Failure.FULL,
    "54": Failure.TOO_LARGE,
    # Not supported, cardinality, transaction state and termination, names, syntax and rights, WITH CHECK
    # OPTION, the state of an object, raised by a trigger.
    **dict.fromkeys(
        ("0A", "21", "25", "2D", "34", "3D", "3F", "42", "44", "55", "P0", "38", "39", "45"), Failure.OTHER
    ),
}


def failure_of(state: str | None) -> Failure:
    """Return the meaning of a SQLSTATE, for errors that no vendor's own number explains better."""
    if not state:
        return Failure.UNKNOWN
    return STATES.get(state) or _STATE_CLASSES.get(state[:2], Failure.UNKNOWN)


POSTGRESQL: Mapping[str, Failure] = {
    # Closed by an administrator, a crash, during start-up, with its database, by the idle timeout, the idle
    # timeout within a transaction, and the transaction timeout.
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"), Failure.DISCONNECTED),
    # Too many connections; another server behind a pooler, which lacks a prepared statement, or has it.
    **dict.fromkeys(("53300", "26000", "42P05"), Failure.DISCONNECTED),
    **dict.fromkeys(("55P03", "57014"), Failure.TRANSIENT),
    "42704": Failure.OTHER,
}

MYSQL: Mapping[int, Failure] = {
    **dict.fromkeys((1053, 1927, 2002, 2003, 2005, 2006, 2013, 2014, 2055), Failure.DISCONNECTED),
    # The connection broke while the server read or wrote; the server has closed an idle one.
    **dict.fromkeys((1152, 1158, 1159, 1160, 1161, 1184, 4031), Failure.DISCONNECTED),
    # Too many connections or threads; a server that has left its cluster, or is joining its group; a host
    # that has failed to connect too often.
    **dict.fromkeys((1040, 1047, 1129, 1135, 1203, 1226, 3796), Failure.DISCONNECTED),
    **dict.fromkeys((1290, 1792, 1836), Failure.READ_ONLY),
    # Also an expired password (1820, 1862) and a locked account (3118, in MariaDB 4151).
    **dict.fromkeys((1044, 1045, 1130, 1698, 1820, 1862, 3118, 4151), Failure.REFUSED),
    # 1020: another transaction has changed the row. 1317: the statement was killed; 1028: while it sorted.
    **dict.fromkeys((1020, 1028, 1205, 1213, 1317, 1969, 3024), Failure.TRANSIENT),
    # The server does not have the prepared statement, or could not prepare it again.
    **dict.fromkeys((1243, 1615), Failure.TRANSIENT),
    # Group Replication: another server has changed the row (3101); the wait for other servers before the
    # statement has failed.
    **dict.fromkeys((3101, 3797, 3798), Failure.TRANSIENT),
    # TiDB: a write conflict, a commit that was rolled back, a change of the schema.
    **dict.fromkeys((8005, 8022, 8028, 9007), Failure.TRANSIENT),
    # A hook of COMMIT has failed, perhaps after the group has received the transaction.
    3100: Failure.UNKNOWN,
    1062: Failure.DUPLICATE,
    **dict.fromkeys((1048, 1264, 1364, 1366, 1406, 3819, 4025), Failure.BAD_VALUE),
    # Compared with a column whose character set lacks it.
    **dict.fromkeys((1267, 3854), Failure.BAD_VALUE),
    1153: Failure.TOO_LARGE,
    **dict.fromkeys((1021, 1114), Failure.FULL),
    **dict.fromkeys((1054, 1146), Failure.NO_TABLE),
    # Rights; names, syntax and unsupported features; locked tables, a trigger, the binary log.
    **dict.fromkeys((1142, 1143, 1227, 1370), Failure.OTHER),
    **dict.fromkeys((1049, 1055, 1064, 1136, 1193, 1235, 1242, 1305), Failure.OTHER),
    **dict.fromkeys((1099, 1100, 1442, 1644, 1665), Failure.OTHER),
}
MYSQL_TEXTS: Mapping[int, tuple[tuple[str, Failure], ...]] = {
    # "Got error ... during COMMIT": the storage engine has rolled back; or the server is cut off from its
    # cluster, which may have received the transaction.
    1180: (("error 149", Failure.TRANSIENT), ("", Failure.UNKNOWN)),
}
"""The meaning of numbers that have several, by the first of these texts that is in the message."""

ORACLE: Mapping[int, Failure] = {
    **dict.fromkeys((28, 1012, 1033, 1034, 1089, 1090, 3113, 3114, 3135), Failure.DISCONNECTED),
    **dict.fromkeys((12170, 12500, 12514, 12518, 12520, 12541, 12545, 12571), Failure.DISCONNECTED),
    **dict.fromkeys((18, 20, 16456, 25408, 25409), Failure.DISCONNECTED),
    16000: Failure.READ_ONLY,
    **dict.fromkeys((1005, 1017, 1045, 28000, 28001), Failure.REFUSED),
    # 25402: the session has moved to another instance, and its transaction is rolled back.
    **dict.fromkeys((54, 60, 8177, 25402, 30006), Failure.TRANSIENT),
    # The session has moved to another instance during a COMMIT.
    25405: Failure.UNKNOWN,
    1: Failure.DUPLICATE,
    **dict.fromkeys((1400, 1407, 1438, 2290, 12899, 12704), Failure.BAD_VALUE),
    **dict.fromkeys((1461, 22835), Failure.TOO_LARGE),
    **dict.fromkeys((257, 1536, 1652, 1653, 1654, 1688, 1691, 30036), Failure.FULL),
    **dict.fromkeys((904, 942), Failure.NO_TABLE),
    # Syntax; rights; raised by a trigger, or its own error.
    **dict.fromkeys((900, 905, 907, 911, 917, 923, 933, 936), Failure.OTHER),
    **dict.fromkeys((1031, 4088, 4091, 4098, 6512, *range(20000, 21000)), Failure.OTHER),
}

MSSQL: Mapping[int, Failure] = {
    **dict.fromkeys((2627, 2601), Failure.DUPLICATE),
    **dict.fromkeys((1205, 1222, 3960), Failure.TRANSIENT),
    **dict.fromkeys((515, 547, 8115, 8152, 2628), Failure.BAD_VALUE),
    **dict.fromkeys((1105, 9002, 1101), Failure.FULL),
    **dict.fromkeys((207, 208), Failure.NO_TABLE),
    **dict.fromkeys((4060, 18456, 18452), Failure.REFUSED),
    **dict.fromkeys((233, 10053, 10054, 10060), Failure.DISCONNECTED),
    3906: Failure.READ_ONLY,
    # A secondary of an availability group; Azure: the database moves, the service is busy or at its limit.
    **dict.fromkeys((976, 983, 40197, 40501, 40613), Failure.DISCONNECTED),
    **dict.fromkeys((10928, 10929, 49918, 49919, 49920), Failure.DISCONNECTED),
    # The outcome of a distributed transaction; of a statement that a severe error has ended.
    **dict.fromkeys((3997, 8525), Failure.UNKNOWN),
}
