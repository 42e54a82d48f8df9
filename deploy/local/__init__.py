"""Real servers on one machine: Apache Kafka, Redis and any further programs, under supervision."""
