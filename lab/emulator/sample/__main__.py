"""`python -m lab.emulator.sample`: plays resource managers of a few jobs until it is stopped."""

from lab.emulator.sample.app import main
from shared.process.environment import run

run(main)
