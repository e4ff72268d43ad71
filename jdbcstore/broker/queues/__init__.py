"""Queues of the broker: dispatch, acknowledgement, redelivery, dead letters."""
