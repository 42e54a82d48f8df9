"""One process with a Faust read model in SQLite.

Settings come from COPLACE_*; TEST_DATABASE, TEST_KEEPS_POSITION and TEST_BUG_AT from the test.
"""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Mapping, Sequence

from shared.catalogue.record import Record, TopicPartition
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.faust_app import run_stateless, stateless_app

TOPIC = "jobs.events"


class Projection:
    """Counts how often each event was applied, and the position after the last one."""

    def __init__(self, path: str, bug_at: str) -> None:
        self._bug_at = bug_at
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    async def apply(self, records: Sequence[Record]) -> None:
        """Apply a batch in one transaction."""
        self._database.execute("BEGIN")
        for record in records:
            self._count(dict(record.headers)["ce_id"].decode())
            self._database.execute(
                "INSERT OR REPLACE INTO positions VALUES (?, ?)",
                (record.partition.kafka_partition, record.offset + 1),
            )
        self._database.execute("COMMIT")

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Where to read on."""
        found = dict(self._database.execute("SELECT kafka_partition, position FROM positions"))
        return {partition: found.get(partition.kafka_partition, 0) for partition in partitions}

    def _count(self, event_id: str) -> None:
        if event_id == self._bug_at:
            raise KeyError("a bug in the handler")
        self._database.execute(
            "INSERT INTO applied VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1",
            (event_id,),
        )


async def main() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    projection = Projection(os.environ["TEST_DATABASE"], os.environ["TEST_BUG_AT"])
    positions = projection.positions if os.environ["TEST_KEEPS_POSITION"] else None
    deployment = Deployment.from_settings(Settings())
    app = stateless_app(deployment, "projection", {TOPIC: projection.apply}, positions)
    await run_stateless(app, stop)


if __name__ == "__main__":
    asyncio.run(main())
