"""Cases that older versions of ActiveMQ or of its JMS client do not pass, each with the reason."""

from __future__ import annotations

_BEFORE_5_16 = (
    (
        "test_xa.py::test_activemq_decides_what_jdbcstore_prepared[",
        "ActiveMQ 5.15 reads client and subscription of a prepared acknowledgement in the wrong order",
    ),
    (
        "jms/test_xa.py::test_a_branch_that_is_forgotten[",
        "the client of 5.15 keeps a message when its consumer is closed after the branch is forgotten",
    ),
    ("jms/test_xa.py::test_a_session_without_a_branch[", "the client of 5.15 also sends without a branch"),
    (
        "jms/test_transactions.py::test_a_message_that_waits_for_redelivery_while_the_connection_is_lost[",
        "the client of 5.15 does not take the message a second time",
    ),
    (
        "jms/test_advisories.py::test_a_slow_durable_subscriber[activemq",
        "ActiveMQ 5.15 calls a consumer slow that has its prefetch, though nothing waits",
    ),
    (
        "jms/test_scheduled.py::test_too_many_repetitions[activemq",
        "ActiveMQ 5.15 has no limit of repetitions",
    ),
    (
        "jms/test_scheduled.py::test_a_period_alone[activemq",
        "ActiveMQ 5.15 repeats a message that has a period alone for ever",
    ),
    ("jms/test_scheduled.py::test_bad_values[activemq-properties3", "ActiveMQ 5.15 accepts minute 61"),
    (
        "behaviours/test_scheduled.py::test_bad_values[activemq-",
        "ActiveMQ 5.15 answers some with ERROR, where later ones close the connection",
    ),
    (
        "behaviours/test_sending.py::test_carriage_return_is_escaped[activemq-",
        "ActiveMQ 5.15 does not know STOMP's escape of a carriage return",
    ),
)
"""Beginnings of the ids of cases below ``tests/interop``, and reasons."""


def why_not(case: str, number: tuple[int, ...]) -> str | None:
    """Return why this version does not pass a case; None if it should."""
    if number >= (5, 16):
        return None
    return next((reason for begin, reason in _BEFORE_5_16 if case.startswith(f"tests/interop/{begin}")), None)
