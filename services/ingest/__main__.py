"""`python -m services.ingest`: gRPC in, Kafka out."""

from services.ingest.app import main

main()
