"""`python -m services.webhooks`: what happens to URLs, signed and retried."""

from services.webhooks.app import main
from shared.process.environment import run

run(main)
