"""`python -m services.watch`: decisions over gRPC."""

from services.watch.app import main
from shared.process.environment import run

run(main)
