"""The word that Slurm's plugins leave: that a job came, or that a run ended."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# To look at the time of a file costs some microseconds.
_LOOKS_EVERY_S: Final = 0.02


class PluginsWord:
    """Whether something came or ended since somebody last looked, by the times of what
    deploy/slurm/job_submit.lua and jobcomp.lua write. Where they write nothing there is no word."""

    def __init__(self, *written: Path, before_s: float = 0.0) -> None:
        """The word is left so long before what it says is so."""
        self._written, self._before_s = written, before_s
        self._known: Sequence[int] = ()
        self.heard()

    def heard(self) -> None:
        """Take note of all that was left until now: a look comes behind this."""
        self._known = self._times_ns()

    async def wait(self, most_s: float) -> bool:
        """Wait for word, for so long at most; return whether there is any."""
        if not self._written:
            await asyncio.sleep(most_s)
            return False
        loop = asyncio.get_running_loop()
        until_s = loop.time() + most_s
        while self._times_ns() == self._known:
            left_s = until_s - loop.time()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(left_s, _LOOKS_EVERY_S))
        await asyncio.sleep(self._before_s)
        return True

    def _times_ns(self) -> Sequence[int]:
        return [_time_ns(each) for each in self._written]


NO_WORD: Final = PluginsWord()


def _time_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
