"""Simulation: the product's own code over a clock, a disk and a database that fail as a seed says."""
