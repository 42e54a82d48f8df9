"""`python -m services.energy.api`: projections over gRPC."""

from services.energy.api.app import main
from shared.process.environment import run

run(main)
