"""`python -m lab.emulator`: plays resource managers and nodes on Kafka, then ends."""

from lab.emulator.app import main
from shared.process.environment import run

run(main)
