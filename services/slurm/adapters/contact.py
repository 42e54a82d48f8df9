"""When Coplace last spoke, as a file beside slurmctld: a timer there gives jobs back to Slurm when
that is too long ago, and asks nobody (giving_back.py)."""

import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final

from coplace_client.files import write_whole
from services.slurm.adapters.region import AskedRegion

# So long after Coplace spoke it is still taken to be there.
_LASTS_S: Final = 60.0
_TEXT: Final = (
    "Coplace decides on the jobs of this Slurm: the time of this file is when it last did.\n"
)


class Contact:
    """Coplace speaks where ingest took what this process had to say, placement went on since, and
    decisions come. It is asked every `every_s`, and more often while it is silent."""

    def __init__(
        self,
        region: AskedRegion,
        file: Path,
        is_silent: Callable[[], bool],
        every_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._region, self._file, self._is_silent = region, file, is_silent
        self._every_s, self._clock_s = every_s, clock_s
        self._round_us: int | None = None
        self._spoke_s = self._due_s = -inf

    @property
    def is_there(self) -> bool:
        """Return whether Coplace spoke a moment ago."""
        return self._clock_s() - self._spoke_s < self._every_s + _LASTS_S

    def look(self) -> None:
        """Note where Coplace speaks, if it is time to ask. Raises UnansweredError and OSError."""
        now_s = self._clock_s()
        if now_s < self._due_s:
            return
        round_us = self._region.round_us()
        # What placement says first may be from before it stopped.
        goes_on = self._round_us is not None and round_us > self._round_us
        self._round_us = round_us
        if not goes_on or self._is_silent():
            return
        with write_whole(self._file) as fresh:
            fresh.write_text(_TEXT, encoding="utf-8")
        self._spoke_s, self._due_s = now_s, now_s + self._every_s
