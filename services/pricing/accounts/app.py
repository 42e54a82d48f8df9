"""Composition root of the accounts."""

from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.model import AccountEntry, entry_of
from shared.catalogue.event import Event
from shared.streams.read_models.service import run_read_model

NAME: Final = "accounts"


def entry(event: Event) -> AccountEntry | None:
    """Return the entry of a charge; None for a round's barrier. Raises RejectedError."""
    return entry_of(event.payload) if isinstance(event.payload, ChargeMade) else None


def main() -> None:
    """Run the process of the accounts."""
    run_read_model(NAME, RedisAccounts, entry)
