"""Says that a Slurm answers, and that somebody reports what happens in it."""

import time
from collections.abc import Callable

from coplace.v1.ingest_service_pb2 import Envelope

from cli.asking import publish
from cli.times import clock_us
from coplace_client.facts import SAYS_EVERY_S, alive


class SlurmHeartbeat:
    """Speaks for the resource manager of one cluster, at most every 30 s."""

    def __init__(
        self,
        ingest: str,
        site: str,
        cluster: str,
        send: Callable[[str, Envelope], object] = publish,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ingest, self._site, self._cluster = ingest, site, cluster
        self._send, self._clock_s = send, clock_s
        self._due_s = clock_s()

    def beat(self) -> None:
        """Say it, where it is time to. Raises UnansweredError."""
        now_s = self._clock_s()
        if now_s < self._due_s:
            return
        name = f"Slurm {self._cluster} of {self._site}"
        self._send(self._ingest, alive(self._site, name, [self._cluster], clock_us()))
        self._due_s = now_s + SAYS_EVERY_S
