"""`python -m services.history`: topics in, SQL and answers over gRPC out."""

from services.history.app import main
from shared.process.environment import run

run(main)
