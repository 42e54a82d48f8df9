"""`python -m services.prediction`: finished jobs, meters and shutters in, models out."""

from services.prediction.app import main
from shared.process.environment import run

run(main)
