"""Decisions on jobs of API servers, obeyed over failures of these."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import structlog
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.ingest import FactRefusedError
from shared.kubernetes.api import ApiUnavailableError

K = TypeVar("K")

log = structlog.get_logger(__name__)


class DecisionsInOrder(Generic[K]):
    """Those of a job are obeyed in order, of several jobs at once. One that fails for good sets its
    object aside, and holds up no other."""

    def __init__(
        self,
        of_id: Callable[[str], Awaitable[K | None]],
        obey_one: Callable[[PlacementDecided, K | None], Awaitable[bool]],
        set_aside: Callable[[K, Exception], object],
        retry_s: float,
    ) -> None:
        """`of_id` finds the object of a job; `obey_one` returns whether a decision on it is dealt
        with: else it is looked at again."""
        self._of_id, self._obey_one, self._set_aside = of_id, obey_one, set_aside
        self._retry_s = retry_s

    async def obey(self, decisions: Sequence[PlacementDecided]) -> None:
        """Return when all are dealt with."""
        by_job: defaultdict[str, list[PlacementDecided]] = defaultdict(list)
        for decision in decisions:
            by_job[decision.job_id].append(decision)
        await asyncio.gather(*map(self._obey, by_job.values()))

    async def _obey(self, decisions: Sequence[PlacementDecided]) -> None:
        for decision in decisions:
            while not await self._tried(decision):
                pass

    async def _tried(self, decision: PlacementDecided) -> bool:
        """Whether a decision is dealt with; else it is to be looked at again."""
        uid: K | None = None
        try:
            uid = await self._of_id(decision.job_id)
            return await self._obey_one(decision, uid)
        except ApiUnavailableError as error:
            log.warning("tried again", job=decision.job_id, problem=str(error))
            await asyncio.sleep(self._retry_s)
            return False
        except FactRefusedError as error:
            log.error("ingest refused", job=decision.job_id, problem=str(error))
        except Exception as error:  # noqa: BLE001 no decision may hold up those on others
            if uid is not None:
                self._set_aside(uid, error)
            log.error("not obeyed", job=decision.job_id, problem=repr(error))
        return True
