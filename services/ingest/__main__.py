"""`python -m services.ingest`: gRPC in, Kafka out."""

from services.ingest.app import main
from shared.runtime.environment import run

run(main)
