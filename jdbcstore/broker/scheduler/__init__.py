"""Scheduled delivery: messages that are sent to their destination later, once or repeatedly."""
