"""The log of a journal in a stream of NATS JetStream, which its servers replicate. It needs nats-py."""

from __future__ import annotations

from jdbcstore.errors import ConfigurationError, installation

try:
    import nats  # noqa: F401
except ImportError as error:
    raise ConfigurationError(
        f"a journal in a stream needs nats-py; run: {installation('nats')}", option="journal.stream"
    ) from error
