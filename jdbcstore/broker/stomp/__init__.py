"""The broker's STOMP connector: 1.0, 1.1 and 1.2, over TCP and TLS.

A ``connector`` accepts connections at an address. Each ``connection`` parses ``frames`` and passes them to
its ``session``, which calls the broker and writes the ``messages`` of its ``subscriptions``.
"""
