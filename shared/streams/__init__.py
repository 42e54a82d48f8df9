"""Events, the topics that carry them, and the two logs that keep them: in memory and Kafka."""
