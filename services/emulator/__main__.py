"""`python -m services.emulator`: plays resource managers and nodes on Kafka, then ends."""

from services.emulator.app import main
from shared.process.environment import run

run(main)
