"""The log of a journal in a stream of NATS JetStream, which its servers replicate. It needs nats-py."""

from __future__ import annotations

from jdbcstore.errors import needing

with needing("a journal in a stream needs nats-py", "nats", "journal.stream"):
    import nats  # noqa: F401
