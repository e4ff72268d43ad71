"""Histories of clients, and the one checker that judges them: simulation, campaign and fault tests use it."""
