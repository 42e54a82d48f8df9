"""Looks at the jobs of a Slurm, which all of this process share: to show them takes slurmctld and
us the longer, the more there are."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import inf
from typing import Final, NamedTuple, TypeVar

from services.slurm.adapters.commands import Slurm
from services.slurm.model.jobs import SlurmJob

# A start is decided on what a look shows, whoever else changes the job at that moment.
_LASTS_S: Final = 3.0

_T = TypeVar("_T")


class _Look(NamedTuple):
    began_s: float
    by_number: Mapping[int, Sequence[SlurmJob]]


class SlurmLooks:
    """What Slurm showed a moment ago is not asked for again; what this process changed since is."""

    def __init__(self, slurm: Slurm, now_s: Callable[[], float] = time.monotonic) -> None:
        self._slurm, self._now_s = slurm, now_s
        self._last = _Look(-inf, {})
        self._changed_s: dict[int, float] = {}

    def all(self) -> list[SlurmJob]:
        """Return all jobs as they are now. Raises SlurmError."""
        began_s = self._now_s()
        jobs = self._slurm.jobs()
        self._keep(began_s, jobs)
        return jobs

    def find(self, number: int, among: Callable[[Sequence[SlurmJob]], _T | None]) -> _T | None:
        """Pick one of the jobs of a number, which are several of an array. Slurm is asked once at
        most, where the last look does not show it. Raises SlurmError."""
        last = self._last
        is_fresh = self._now_s() - last.began_s < _LASTS_S
        if is_fresh and number in last.by_number and not self._is_changed(number, last):
            picked = among(last.by_number[number])
            if picked is not None:
                return picked
        began_s = self._now_s()
        jobs = self._slurm.jobs(number)
        if any(number not in job.numbers for job in jobs):  # before 23.02 it shows all
            self._keep(began_s, jobs)
        return among([job for job in jobs if number in job.numbers])

    @contextmanager
    def changing(self, *jobs: SlurmJob) -> Iterator[None]:
        """Change jobs: looks that began before the end of that do not show them as they are."""
        try:
            yield
        finally:
            numbers = chain.from_iterable(job.numbers for job in jobs)
            self._changed_s.update(dict.fromkeys(numbers, self._now_s()))

    def _is_changed(self, number: int, look: _Look) -> bool:
        return self._changed_s.get(number, -inf) >= look.began_s

    def _keep(self, began_s: float, jobs: Iterable[SlurmJob]) -> None:
        if began_s < self._last.began_s:  # two looked at once
            return
        by_number = defaultdict[int, list[SlurmJob]](list)
        for job in jobs:
            for number in job.numbers:
                by_number[number].append(job)
        self._last = _Look(began_s, dict(by_number))
        # What changed since this look began is not in a look that ends behind it either.
        for number, changed_s in [*self._changed_s.items()]:
            if number not in by_number and changed_s < began_s:
                self._changed_s.pop(number, None)
