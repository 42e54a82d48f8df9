"""One Apache Kafka broker in KRaft mode, from its Maven artifacts."""
