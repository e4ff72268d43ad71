"""The main job: messages survive the death of the broker that stores them.

Several producers and a consumer, each a process with a stock STOMP client, work through a broker, which
alone opens the store. :func:`~jdbcstore.cli.demo.scenario.run` kills it with SIGKILL in mid-flight, again and
again, and starts it anew. Who sent, acknowledged and received what is kept in a ledger on disk by those who
did it; the outcome is computed from that ledger and from the store, after everybody has ended.
"""
