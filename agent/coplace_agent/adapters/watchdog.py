"""The agent's side of its watchdog."""

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coplace_agent import watchdog
from coplace_agent.watchdog import ANSWER, Target

_STARTS_WITHIN_S: Final = 30.0


class WatchdogLostError(RuntimeError):
    """The watchdog does not answer: nothing may be paused, and the agent has to start anew."""


class Watchdog:
    """Starts the watchdog, which first continues what `file` names from before.

    It is in a session of its own, so that no signal to the agent's process group reaches it.
    """

    def __init__(self, file: Path, most_pause_s: float) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = [sys.executable, "-I", "-S", watchdog.__file__, str(file), str(most_pause_s)]
        with its:
            self._process = subprocess.Popen(script, stdin=its.fileno(), start_new_session=True)
        self._agent = ours
        self._most_pause_s = most_pause_s
        self._await_answer(_STARTS_WITHIN_S)

    @property
    def pid(self) -> int:
        """Return the number of the watchdog's process."""
        return self._process.pid

    def announce(self, targets: Sequence[Target]) -> None:
        """Returns when the watchdog knows that these are to be paused, all that are already among
        them. Raises WatchdogLostError: they must not be, then."""
        self._send(targets)
        self._await_answer(self._most_pause_s)

    def clear(self) -> None:
        """Report that nothing is paused any more. Raises WatchdogLostError."""
        self._send(())

    def close(self) -> None:
        """Let it end, and wait for that."""
        self._agent.close()
        self._process.wait()

    def _send(self, targets: Sequence[Target]) -> None:
        try:
            self._agent.send(json.dumps(targets).encode())
        except OSError as error:
            raise WatchdogLostError(f"the watchdog has ended: {error}") from error

    def _await_answer(self, within_s: float) -> None:
        self._agent.settimeout(within_s)
        try:
            answer = self._agent.recv(len(ANSWER))
        except OSError as error:
            raise WatchdogLostError(f"no answer of the watchdog: {error}") from error
        if answer != ANSWER:
            raise WatchdogLostError("the watchdog has ended")
