"""Composition root of the cache of the application database."""

from typing import Final

from services.energy.appdb_cache.adapters import RedisAppDB
from services.energy.appdb_cache.model import row_of
from shared.process.life import Process, run_process
from shared.streams.read_models.service import run_read_model

NAME: Final = "energy.appdb_cache"


async def serve(process: Process) -> None:
    """Keep the cache until the process shall stop."""
    await run_read_model(process, NAME, RedisAppDB, row_of)


def main() -> None:
    """Run the process of the cache of applications."""
    run_process(NAME, serve)
