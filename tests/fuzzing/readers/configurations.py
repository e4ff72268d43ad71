"""Configuration files: ``activemq.xml``, Artemis's ``broker.xml``, and ours."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.config import load_file, shown_options, to_toml
from tests.fuzzing.readers.folder import folder
from tests.support import ROOT
from tests.support.configurations import parts

_FRAGMENTS = ROOT / "tests" / "unit" / "config" / "fragments"


def read_xml(data: bytes) -> None:
    """Read an XML file; as a TOML file, it is the same configuration."""
    directory = folder("configuration")
    path, made = directory / "activemq.xml", directory / "jdbcstore.toml"
    path.write_bytes(data)
    configuration = load_file(path, {})
    assert [*shown_options(configuration)]
    made.write_text(to_toml(configuration, str(path)))
    assert parts(load_file(made, {})) == parts(configuration)


def read_toml(data: bytes) -> None:
    """Read a TOML file, which is written again as the same configuration."""
    directory = folder("configuration")
    path, made = directory / "given.toml", directory / "jdbcstore.toml"
    path.write_bytes(data)
    configuration = load_file(path, {})
    assert [*shown_options(configuration)]
    made.write_text(to_toml(configuration, str(path)))
    assert parts(load_file(made, {})) == parts(configuration)


def activemq_files() -> Iterator[bytes]:
    """Yield ActiveMQ's files."""
    yield from (path.read_bytes() for path in sorted(_FRAGMENTS.glob("*.xml")) if "artemis" not in path.name)


def artemis_files() -> Iterator[bytes]:
    """Yield Artemis's files."""
    yield from (path.read_bytes() for path in sorted(_FRAGMENTS.glob("*artemis*.xml")))
    yield (_FRAGMENTS / "broker.xml").read_bytes()


def toml_files() -> Iterator[bytes]:
    """Yield ActiveMQ's files as ours."""
    directory = folder("configuration")
    path = directory / "activemq.xml"
    for data in activemq_files():
        path.write_bytes(data)
        yield to_toml(load_file(path, {}), "activemq.xml").encode()
