"""Queues: dispatch to consumers, redelivery, dead letters, expiry and browsing."""
