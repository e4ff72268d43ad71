"""What a configuration asks for and jdbcstore does not do yet."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.config.configuration import Configuration
from jdbcstore.config.given import Kind, Note
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.config.statements import unused_statements

_TUNES = "it tunes ActiveMQ's own cursors and threads, and changes nothing that a client sees"
_DEAD_LETTERS = (
    "a message becomes a dead letter in the transaction that takes it from its queue, and so only once"
)
_AUDIT = ("enable_audit", "max_producers_to_audit", "max_audit_depth")
_OF_POLICY = {
    **dict.fromkeys(
        ("store_usage_high_water_mark", "minimum_message_size", "use_cache", "lazy_dispatch",
         "use_prefetch_extension", "gc_inactive_destinations", "inactive_timeout_before_gc"),
        (Kind.IGNORED, _TUNES),
    ),
    "dispatch_policy": (Kind.IGNORED, "each subscriber of a topic gets its messages in their order"),
    **dict.fromkeys(
        ("enable_audit", "max_producers_to_audit", "max_audit_depth", "max_queue_audit_depth",
         "send_duplicate_from_store_to_dlq"),
        (Kind.IGNORED, "duplicates are recognised by the store: set enable_audit at the top"),
    ),
    **dict.fromkeys(
        ("persist_jms_redelivered", "strict_order_dispatch", "consumers_before_dispatch_starts",
         "time_before_dispatch_starts", "max_destinations"),
        (Kind.NOT_RUN, "the broker does not go by it yet"),
    ),
}  # fmt: skip
"""Options of a policy that the broker of jdbcstore does not go by."""


def not_run(configuration: Configuration) -> Iterator[Note]:
    """A note for each part that is read, checked and converted, and that nothing runs."""
    for name, reason in unused_statements(configuration.store.statements):
        place = configuration.sources.get(f"statements.{name}", "configuration")
        yield Note(Kind.IGNORED, place, f"{name} is not run: {reason}")
    for number, policy in enumerate(configuration.policies):
        for option, (kind, reason) in _OF_POLICY.items():
            given = configuration.sources.get(f"policies[{number}].{option}")
            if given is not None and (option in _AUDIT or getattr(policy, option) != _default(option)):
                yield Note(kind, given, f"{option} of a policy: {reason}")
        for option in _AUDIT:
            given = configuration.sources.get(f"policies[{number}].dead_letter_strategy.{option}")
            if given is not None:
                yield Note(Kind.IGNORED, given, f"{option} of a dead-letter strategy: {_DEAD_LETTERS}")


def _default(option: str) -> object:
    return getattr(PolicyEntry(), option)
