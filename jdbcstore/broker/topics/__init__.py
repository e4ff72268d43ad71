"""Topics of the broker: subscribers, durable ones and their backlogs."""
