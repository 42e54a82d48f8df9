"""What carries messages: stages, and the two logs that they run over, in memory and Kafka."""
