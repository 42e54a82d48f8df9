"""An upgrade from an earlier commit in the middle of a run, on real Kafka and Redis."""
