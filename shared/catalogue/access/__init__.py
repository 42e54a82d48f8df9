"""Who may do what at Kafka and Redis."""
