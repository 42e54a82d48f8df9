"""API servers, ingest, placement and the decisions on Kafka."""
