"""Report for an issue: versions, the shape of the configuration, installed packages, and no secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jdbcstore.config import Configuration, shown_options
from jdbcstore.errors import StoreError
from jdbcstore.tools.doctor import Finding

__all__ = ["issue_report"]

_PLAIN = ("adapter", "type", "_data_type", "_table_name", "table_prefix", "sync", "strategy")
"""Ends of the names of options whose strings say nothing about people, machines or passwords."""
_SECRET = ("password", "secret", "token", "credential", "passphrase")


def issue_report(
    versions: Sequence[tuple[str, str]],
    configuration: Configuration,
    store: Finding,
    error: StoreError | None,
    findings: Sequence[Finding],
    environment: Mapping[str, str],
) -> str:
    """Render the report as Markdown, without secrets and safe to publish.

    It has no password, user, host, database name or broker name: of strings it says only that they are
    set, of URLs only the scheme, of errors only the class, and of variables only the name.
    """
    lines = ["# jdbcstore doctor", "", "## Versions", ""]
    lines += [f"- {name} {version}" for name, version in versions]
    lines += ["", "## Store", "", f"- {_scheme(store.name)}: {_outcome(store, error)}"]
    lines += ["", "## Options that are set", ""]
    lines += [f"- `{name}`: {value}" for name, value in _options(configuration)] or ["- none"]
    if configuration.notes:
        lines += ["", f"{len(configuration.notes)} notes: see `jdbcstore config show`."]
    lines += ["", "## Environment", ""]
    set_ = sorted(name for name in environment if name.startswith("JDBCSTORE_"))
    lines += [f"- `{name}` is set" for name in set_] or ["- no variable of jdbcstore is set"]
    lines += ["", "## Drivers and tools", ""]
    lines += [
        f"- {finding.name}: {'missing' if finding.found is None else _without_home(finding.found)}"
        for finding in findings
    ]
    return "\n".join(lines) + "\n"


def _scheme(url: str) -> str:
    """Return everything before the host: ``postgresql+psycopg``, ``jdbc:postgresql``."""
    scheme, colon, _ = url.partition("://")
    if not colon:
        scheme = ":".join(url.split(":")[: 2 if url.startswith("jdbc:") else 1])
    return scheme if scheme.replace(":", "").replace("+", "").replace("_", "").isalnum() else "a URL"


def _outcome(store: Finding, error: StoreError | None) -> str:
    if error is None:
        return store.found or "not reached"
    names, cause = [], error
    while isinstance(cause, BaseException):
        names.append(type(cause).__name__)
        cause = cause.__cause__  # type: ignore[assignment]
    return ", caused by ".join(names)


def _options(configuration: Configuration) -> Iterator[tuple[str, str]]:
    for name, value in shown_options(configuration):
        if value is None or configuration.sources.get(name, "default") == "default":
            continue
        yield name, _shown(name, value)


def _shown(name: str, value: Any) -> str:
    if any(word in name.lower() for word in _SECRET):
        return "set, not shown"
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str) and name.endswith(_PLAIN):
        return repr(value)
    return "set, not shown"


def _without_home(text: str) -> str:
    return text.replace(str(Path.home()), "~")
