"""Scheduled delivery: messages that are sent to their destination later, once or again and again."""
