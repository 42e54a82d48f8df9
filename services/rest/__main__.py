"""`python -m services.rest`: REST over what gRPC answers."""

from services.rest.app import main
from shared.process.environment import run

run(main)
