"""What a configuration asks for and jdbcstore does not do yet."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.config.configuration import Configuration
from jdbcstore.config.given import Kind, Note
from jdbcstore.config.statements import unused_statements


def not_run(configuration: Configuration) -> Iterator[Note]:
    """A note for each part that is read, checked and converted, and that nothing runs."""
    locker, journal = configuration.locker, configuration.journal
    for name, reason in unused_statements(configuration.store.statements):
        place = configuration.sources.get(f"statements.{name}", "configuration")
        yield Note(Kind.IGNORED, place, f"{name} is not run: {reason}")
    if journal is not None:
        text = "the journal is not written: each message goes into the database before a send returns"
        yield Note(Kind.NOT_RUN, _source(configuration, "journal."), text)
    if journal is not None and locker is not None:
        text = (
            "a journal is on one machine, and another broker that takes the lock does not have what is only"
            " in there; give up one of the two, or put the journal's directory on a shared disk"
        )
        yield Note(Kind.DANGEROUS, _source(configuration, "journal."), text)


def _source(configuration: Configuration, path: str) -> str:
    places = (place for option, place in configuration.sources.items() if option.startswith(path))
    return next(places, "configuration")
