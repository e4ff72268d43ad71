"""The files of ActiveMQ's LevelDB store: record logs, and the LevelDB that is their index."""
