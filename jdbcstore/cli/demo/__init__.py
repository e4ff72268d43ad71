"""The demo: persistent messages survive a broker that is killed again and again.

Producers and a consumer, each a process with a stock STOMP client, exchange messages through one broker, the
only process that opens the store. :func:`~jdbcstore.cli.demo.scenario.run` kills it with SIGKILL while
messages are in flight, and starts a new one. Each process records its sent, acknowledged and received
messages in a ledger on disk. The outcome is computed from the ledger and the store after all have ended.
"""
