"""OpenWire, the protocol of ActiveMQ's JMS clients: commands, messages, sessions."""
