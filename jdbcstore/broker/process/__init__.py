"""The broker's process: master or slave, its health, and its reaction to failures of the store."""
