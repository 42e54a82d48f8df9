"""Composition root of the accounts."""

from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.model import AccountEntry, entry_of
from shared.catalogue.event import Event
from shared.process.life import Process, run_process
from shared.streams.read_models.service import run_read_model

NAME: Final = "accounts"


def entry(event: Event) -> AccountEntry | None:
    """Return the entry of a charge; None for a round's barrier. Raises RejectedError."""
    return entry_of(event.payload) if isinstance(event.payload, ChargeMade) else None


async def serve(process: Process) -> None:
    """Keep the balances until the process shall stop."""
    await run_read_model(process, NAME, RedisAccounts, entry)


def main() -> None:
    """Run the process of the accounts."""
    run_process(NAME, serve)
