"""The cases of the contract, by subject, on the fixtures of ``jdbcstore.testing.plugin``."""
