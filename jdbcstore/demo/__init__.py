"""The main job: messages survive the death of the process that stores them.

Several producer processes and a consumer process work through a storing process, which alone opens
the store. :func:`~jdbcstore.demo.scenario.run` kills it with SIGKILL in mid-flight, again and again,
and starts it anew. Who sent, acknowledged and received what is kept in a ledger on disk by those who
did it; the outcome is computed from that ledger and from the store, after everybody has ended.
"""
