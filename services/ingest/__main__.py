"""`python -m services.ingest`: gRPC in, Kafka out."""

from services.ingest.app import main
from shared.process.environment import run

run(main)
