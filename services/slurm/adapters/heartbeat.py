"""Says that a Slurm answers, and that somebody reports what happens in it."""

import time
from collections.abc import Callable, Sequence

from coplace_client.facts import alive
from services.slurm.adapters.region import AskedRegion
from shared.process.clock import now_us


class SlurmHeartbeat:
    """Speaks for the resource manager of a Slurm's clusters, at most every `every_s`."""

    def __init__(
        self,
        region: AskedRegion,
        site: str,
        slurm: str,
        clusters: Sequence[str],
        every_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._region, self._site, self._clusters = region, site, clusters
        self._manager, self._every_s, self._clock_s = f"Slurm {slurm} of {site}", every_s, clock_s
        self._due_s = clock_s()

    def beat(self) -> None:
        """Say it, where it is time to. Raises UnansweredError."""
        now_s = self._clock_s()
        if now_s < self._due_s:
            return
        self._region.publish(alive(self._site, self._manager, self._clusters, now_us()))
        self._due_s = now_s + self._every_s
