"""`python -m services.energy.appdb_cache`: signatures and coefficients in, rows in Redis out."""

from services.energy.appdb_cache.app import main
from shared.process.environment import run

run(main)
