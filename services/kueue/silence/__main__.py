"""`python -m services.kueue.silence`: while Coplace is silent Workloads go on by Kueue's rules."""

from services.kueue.silence.app import main
from shared.process.environment import run

run(main)
