"""What becomes of each setting of ActiveMQ's and Artemis's files."""
