"""CPU time of processes."""

import time
from collections.abc import Mapping

import psutil


class CpuTimes:
    """What processes use of one core, by their names, from its creation on."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._began_s = time.monotonic()
        self._before_s = self._used_s()

    def shares(self) -> dict[str, float]:
        """Return the shares of one core, by name."""
        took_s = time.monotonic() - self._began_s
        return {name: (s - self._before_s[name]) / took_s for name, s in self._used_s().items()}

    def _used_s(self) -> dict[str, float]:
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: used.user + used.system for name, used in times.items()}
