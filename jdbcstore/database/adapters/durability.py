"""Which acknowledged messages survive a crash or the loss of a node, by the settings of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jdbcstore.util.checkup import WARNING, Diagnosis, Durability

Settings = Mapping[str, str]
"""Settings of a server as it writes them, by their names."""


def of_postgresql(settings: Settings, standbys: int, *, is_standby: bool) -> Durability:
    """Return the durability on PostgreSQL.

    :param settings: those of a session of the store
    :param standbys: how many receive the server's changes now
    """
    waits = settings["synchronous_commit"]
    names = settings["synchronous_standby_names"]
    if is_standby:
        survives = "This server is a standby: it has what its primary has committed, and takes no messages."
    elif waits == "off":
        survives = "Acknowledged messages of the last moments are lost by a crash of the server."
    elif names and waits != "local":
        survives = f"Acknowledged messages survive the loss of the server: COMMIT waits for {names}."
    elif standbys:
        survives = (
            "Acknowledged messages survive a crash of the server; a standby that takes over may lack those of"
            " the last moments, because COMMIT waits for no standby."
        )
    else:
        survives = (
            "Acknowledged messages survive a crash of the server; they do not survive the loss of its disk,"
            " because it has no standby."
        )
    return Durability(survives, tuple(_risks_of_postgresql(settings)))


def _risks_of_postgresql(settings: Settings) -> Iterator[Diagnosis]:
    for name, text in (
        ("fsync", "A crash of the machine can lose acknowledged messages and damage the tables"),
        ("full_page_writes", "A crash of the machine can damage pages of the tables beyond repair"),
    ):
        if settings[name] != "on":
            yield _risk(name, settings, text, f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")
    cure = "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf()"
    if settings["synchronous_commit"] == "off":
        text = "A crash of the server loses the messages acknowledged in the last moments"
        yield _risk("synchronous_commit", settings, text, cure)
    elif settings["synchronous_commit"] == "local" and settings["synchronous_standby_names"]:
        text = "COMMIT does not wait for the synchronous standby: one that takes over may lack messages"
        yield _risk("synchronous_commit", settings, text, cure)


def of_mysql(settings: Settings, status: Settings) -> Durability:
    """Return the durability on MySQL or MariaDB, by its variables and its status."""
    risks: list[Diagnosis] = []
    if settings.get("wsrep_on") == "ON":
        nodes = int(status.get("wsrep_cluster_size", "1"))
        survives = _of_nodes(settings, nodes)
        if settings.get("wsrep_sync_wait") == "0" and nodes > 1:
            survives += " Another node shows them a moment later (wsrep_sync_wait = 0)."
    elif settings.get("group_replication_group_name"):
        nodes = 2  # what a group answers, its majority has received
        survives = _of_nodes(settings, nodes)
        risks += _of_group(settings)
    else:
        nodes = 1
        survives = _of_one(settings, status)
        risks += _of_semi_synchronous(settings, status)
    if nodes == 1:
        risks += _of_crash(settings)
    return Durability(survives, tuple(risks))


def _of_nodes(settings: Settings, nodes: int) -> str:
    if nodes == 1:
        return "The cluster has one node left: acknowledged messages do not survive the loss of its disk."
    survives = "Acknowledged messages survive the loss of a node"
    if relaxed := _relaxed(settings):
        return f"{survives}, but not of all nodes at once, because {' and '.join(relaxed)}."
    return f"{survives}, and a crash of all nodes at once."


def _relaxed(settings: Settings) -> list[str]:
    """Return the settings with which COMMIT does not wait for the disk."""
    names = ["innodb_flush_log_at_trx_commit"]
    if settings.get("log_bin") == "ON":
        names.append("sync_binlog")
    return [f"{name} = {settings[name]}" for name in names if settings.get(name, "1") != "1"]


def _of_one(settings: Settings, status: Settings) -> str:
    if _relaxed(settings):
        return "Acknowledged messages of the last second are lost by a crash of the machine."
    survives = "Acknowledged messages survive a crash of the server"
    if _is_semi_synchronous(settings):
        if _waits(status):
            return "Acknowledged messages survive the loss of the server: COMMIT waits for a replica."
        return f"{survives}; a replica that takes over may lack some, because COMMIT waits for none now."
    if settings.get("log_bin") == "ON":
        return (
            f"{survives}; a replica that takes over may lack those of the last moments, because COMMIT waits"
            " for no replica."
        )
    return f"{survives}; they do not survive the loss of its disk, because it has no replica."


def _is_semi_synchronous(settings: Settings) -> bool:
    return "ON" in (
        settings.get("rpl_semi_sync_master_enabled"),
        settings.get("rpl_semi_sync_source_enabled"),
    )


def _waits(status: Settings) -> bool:
    return "ON" in (status.get("Rpl_semi_sync_master_status"), status.get("Rpl_semi_sync_source_status"))


def _of_semi_synchronous(settings: Settings, status: Settings) -> Iterator[Diagnosis]:
    if _is_semi_synchronous(settings) and not _waits(status):
        yield Diagnosis(
            name="semi-synchronous replication off",
            severity=WARNING,
            text="COMMIT waits for no replica: one that takes over may lack acknowledged messages",
            cause="no replica has answered in time, or none is connected",
            cure="START REPLICA on a replica with semi-synchronous replication",
        )


def _of_group(settings: Settings) -> Iterator[Diagnosis]:
    is_single = settings.get("group_replication_single_primary_mode") == "ON"
    if is_single and settings.get("group_replication_consistency") == "EVENTUAL":
        text = "A new primary answers before it has applied all: its broker may not see acknowledged messages"
        cure = "SET PERSIST group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER' at each member"
        yield _risk("group_replication_consistency", settings, text, cure)


def _of_crash(settings: Settings) -> Iterator[Diagnosis]:
    flush = settings.get("innodb_flush_log_at_trx_commit", "1")
    if flush != "1":
        what = "machine" if flush == "2" else "server"
        text = f"A crash of the {what} loses the messages acknowledged in the last second"
        name = "innodb_flush_log_at_trx_commit"
        yield _risk(name, settings, text, f"SET GLOBAL {name} = 1")
    if settings.get("log_bin") == "ON" and settings.get("sync_binlog", "1") != "1":
        text = "A crash of the machine loses acknowledged messages that the binary log on disk lacks"
        yield _risk("sync_binlog", settings, text, "SET GLOBAL sync_binlog = 1")


def of_sqlite(synchronous: int, journal_mode: str) -> Durability:
    """Return the durability on SQLite, by two settings of a connection."""
    if synchronous >= 2:
        return Durability(
            "Acknowledged messages survive a crash of the machine; they do not survive the loss of its disk."
        )
    settings = {"synchronous": str(synchronous), "journal_mode": journal_mode}
    text = "A crash of the machine loses the messages acknowledged in the last moments"
    return Durability(f"{text}.", (_risk("synchronous", settings, text, "PRAGMA synchronous = FULL"),))


def _risk(name: str, settings: Settings, text: str, cure: str) -> Diagnosis:
    return Diagnosis(
        name=name.replace("_", " "),
        severity=WARNING,
        text=text,
        cause=f"the setting {name} = {settings[name]}",
        cure=cure,
    )
