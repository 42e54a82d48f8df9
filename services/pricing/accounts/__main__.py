"""`python -m services.pricing.accounts`: charges in, balances in Redis out."""

from services.pricing.accounts.app import main
from shared.process.environment import run

run(main)
