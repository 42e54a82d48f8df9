"""Obeys one decision again and again, as long as that can help."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import structlog
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError
from services.slurm.adapters.commands import SlurmBusyError, SlurmError, SlurmRefusedError
from services.slurm.adapters.obedience import ANSWERED
from services.slurm.processor.orders import Order
from shared.domain.printable import printable

_RETRY_S: Final = 5.0
# How often what may be the machine's fault is tried.
_TRIES_OF_DEFECTS: Final = 3
# How often Slurm is asked that has the job in hand: two minutes.
_TRIES_OF_BUSY: Final = 24
_MOST_SHOWN: Final = 1_000

log = structlog.get_logger(__name__)


class Obeys(Protocol):
    """Carries out a decision, or answers that it can't be."""

    def obey(self, decision: PlacementDecided) -> list[Order]: ...

    def refuse(self, decision: PlacementDecided, reason: str, limit: str = "") -> list[Order]: ...


class Tries:
    """One order to Slurm at a time, beside the loop; a job that has to be tried again holds up no
    other."""

    def __init__(self, obedience: Obeys, retry_s: float = _RETRY_S) -> None:
        self._obedience, self._retry_s = obedience, retry_s
        self._turn = asyncio.Lock()

    async def obey(self, decision: PlacementDecided) -> list[Order]:
        """Obey it while Slurm or ingest do not answer, and some times where Slurm has the job in
        hand; what fails again otherwise is set aside."""
        orders = await self._until_done(decision)
        did = ", ".join(map(str, orders)) or "nothing to do"
        log.info("obeyed", job=decision.job_id, did=did)
        return orders

    async def refuse(self, decision: PlacementDecided, reason: str, limit: str) -> list[Order]:
        """Decline a start for a limit of Slurm's, once. Raises SlurmError and UnansweredError."""
        return await self._in_turn(lambda: self._obedience.refuse(decision, reason, limit))

    async def _until_done(self, decision: PlacementDecided) -> list[Order]:
        failures = Counter[str]()
        while True:
            try:
                return await self._in_turn(lambda: self._obedience.obey(decision))
            except Exception as error:  # noqa: BLE001 one decision is no reason to end or to stop
                failures[type(error).__name__] += 1
                again = _most_tries(error)
                if again and failures[type(error).__name__] >= again:
                    return await self._set_aside(decision, error)
                log.warning("tried again", job=decision.job_id, problem=shown_error(error))
            await asyncio.sleep(self._retry_s)

    async def _set_aside(self, decision: PlacementDecided, error: Exception) -> list[Order]:
        """A start or an action is refused with the reason; where that fails too, placement
        withdraws a start when nobody confirmed it in time."""
        log.error("set aside", job=decision.job_id, problem=shown_error(error))
        if decision.verdict not in ANSWERED or isinstance(error, UnansweredError):
            return []
        try:
            return await self._in_turn(lambda: self._obedience.refuse(decision, shown_error(error)))
        except Exception as again:  # noqa: BLE001 as above
            log.error("not answered", job=decision.job_id, problem=shown_error(again))
            return []

    async def _in_turn(self, act: Callable[[], list[Order]]) -> list[Order]:
        async with self._turn:
            return await asyncio.to_thread(act)


def _most_tries(error: Exception) -> int:
    """How often a decision that fails so is tried; 0: until it is done, since Slurm or ingest is
    not there, and no decision is at fault."""
    match error:
        case SlurmRefusedError():
            return 1
        case SlurmBusyError():
            return _TRIES_OF_BUSY
        case UnansweredError():
            return 1 if error.is_refusal else 0
        case SlurmError():
            return 0
    return _TRIES_OF_DEFECTS


def shown_error(error: Exception) -> str:
    """Return a failure of what is asked in its words, a defect of ours with its kind."""
    text = str(error) if isinstance(error, UnusableError) else repr(error)
    return printable(text, _MOST_SHOWN)
