"""`python -m services.energy.api`: projections over gRPC."""

from services.energy.api.app import main
from shared.runtime.environment import run

run(main)
