"""Keeps in the records of Jobs that wait why they do, and when they are expected to start."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.model.jobs import JobUid
from shared.kubernetes.explained_wait import StartExplainer

# Placement has more to do: it is asked about a Job every minute once that has waited for a moment,
# and so often in all at most.
_FIRST_S: Final = 5.0
_EVERY_S: Final = 60.0
_BETWEEN_S: Final = 0.2
_NOTHING_S: Final = 2.0


class WaitNotes:
    """Of thousands of Jobs each waits for its turn."""

    def __init__(
        self,
        jobs: JobReconciler,
        explainer: StartExplainer,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._explainer, self._monotonic_s = jobs, explainer, monotonic_s
        self._due_s: dict[JobUid, float] = {}

    async def run(self, between_s: float = _BETWEEN_S) -> None:
        """Ask about one Job after the other, until cancelled."""
        while True:
            await self.look(between_s)
            await asyncio.sleep(_NOTHING_S)

    async def look(self, between_s: float = 0.0) -> None:
        """Ask about all Jobs that have waited and were not asked about for a while."""
        waiting, now_s = self._jobs.waiting(), self._monotonic_s()
        self._due_s = {uid: self._due_s.get(uid, now_s + _FIRST_S) for uid in waiting}
        for uid, job_id in waiting.items():
            if self._due_s[uid] > now_s:
                continue
            self._due_s[uid] = now_s + _EVERY_S
            if (explained := await self._explainer.explain(job_id)) is not None:
                await self._jobs.note_wait(uid, explained)
            await asyncio.sleep(between_s)
