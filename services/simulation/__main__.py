"""`python -m services.simulation`: plays resource managers and nodes on Kafka, then ends."""

from services.simulation.app import main
from shared.runtime.environment import run

run(main)
