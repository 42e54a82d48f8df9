"""`python -m services.kubernetes.executor`: assignments of the home cluster in, Jobs out."""

from services.kubernetes.executor.app import main
from shared.process.environment import run

run(main)
