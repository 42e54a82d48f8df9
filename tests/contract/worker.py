"""One process that runs a stage on Kafka, and may end or stall itself at a point.

Settings come from COPLACE_*; TEST_STAGE, TEST_SINGLE, TEST_POINT, TEST_ACTION, TEST_BUG_AT and
TEST_FRAGILE from the test.
"""

import asyncio
import os
import signal

from shared.process.settings import Settings
from shared.streams.on_kafka.driver import run_stages
from shared.streams.stages.hooks import Hooks
from tests.contract.backends import Plan

ACTIONS = {"kill": signal.SIGKILL, "stall": signal.SIGSTOP}


class At:
    """Sends this process a signal the first time that it reaches a point."""

    def __init__(self, point: str, action: signal.Signals) -> None:
        self._point = point
        self._action = action
        self._is_at_work = False

    def reached(self, point: str) -> None:
        """Called by the driver. What is kept before any work does not count."""
        self._is_at_work |= point == "received"
        if self._is_at_work and point == self._point:
            self._point = ""
            os.kill(os.getpid(), self._action)


async def main() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    step = At(os.environ["TEST_POINT"], ACTIONS[os.environ["TEST_ACTION"]])
    plan = Plan(
        os.environ["TEST_STAGE"],
        single=bool(os.environ["TEST_SINGLE"]),
        bug_at=os.environ["TEST_BUG_AT"],
        fragile=bool(os.environ["TEST_FRAGILE"]),
    )
    await run_stages([plan.runs()], Settings(), stop, Hooks(step=step))


if __name__ == "__main__":
    asyncio.run(main())
