"""Composition root of the cache of the application database."""

from typing import Final

from services.energy.appdb_cache.adapters import RedisAppDB
from services.energy.appdb_cache.model import row_of
from shared.streams.read_models.service import run_read_model

NAME: Final = "energy.appdb_cache"


def main() -> None:
    """Run the process of the cache of applications."""
    run_read_model(NAME, RedisAppDB, row_of)
