"""One process that runs the counting stage on Kafka, and may end or stall itself at a point.

Settings come from COPLACE_*; TEST_STAGE, TEST_SINGLE, TEST_POINT, TEST_ACTION and TEST_BUG_AT from
the test.
"""

import asyncio
import os
import signal

from shared.messaging.hooks import Hooks
from shared.messaging.kafka import run_stages
from shared.runtime.settings import Settings
from tests.support.messaging import counting

ACTIONS = {"kill": signal.SIGKILL, "stall": signal.SIGSTOP}


class At:
    """Sends this process a signal the first time that it reaches a point."""

    def __init__(self, point: str, action: signal.Signals) -> None:
        self._point = point
        self._action = action

    def reached(self, point: str) -> None:
        """Called by the driver."""
        if point == self._point:
            self._point = ""
            os.kill(os.getpid(), self._action)


async def main() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    step = At(os.environ["TEST_POINT"], ACTIONS[os.environ["TEST_ACTION"]])
    stage = counting(
        os.environ["TEST_STAGE"],
        single=bool(os.environ["TEST_SINGLE"]),
        bug_at=os.environ["TEST_BUG_AT"],
    )
    await run_stages([stage], Settings(), stop, Hooks(step=step))


if __name__ == "__main__":
    asyncio.run(main())
