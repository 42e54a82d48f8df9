"""The slowdown that jobs on shared nodes are guaranteed, and what shutters show of it.

A job that accepts neighbours is guaranteed, when it starts, that none slow it down by more than
`max_slowdown` of that moment. Where shutters show more, the two applications do not start beside
each other on that node model any more, until an operator allows it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Final, NamedTuple

import orjson
from coplace.v1.control_pb2 import PairsAllowed
from coplace.v1.placement_pb2 import SlowdownPromiseBroken
from coplace.v1.placement_service_pb2 import PairApart
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.models.shutters import Shutter, slowdown_interval, unfiltered_slowdown
from shared.placement.state.announcements import announce
from shared.placement.state.job_record import GuaranteeState, JobRecord
from shared.placement.state.job_table import JobTable
from shared.scheduling.sharing import Contention, Pair, pair_of_apps
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.state import State

# Fewer shutters say nothing of how far they may be off.
LEAST_SHUTTERS: Final = 4
# Pairs that stay isolated; the oldest is dropped for a new one.
MOST_APART: Final = 10_000
MOST_LISTED: Final = 200


class ApartKey(NamedTuple):
    """A node model and two applications, in the order of their names."""

    node_model: str
    pair: Pair

    @property
    def text(self) -> str:
        """Return the key of the row in the state."""
        return orjson.dumps([self.node_model, *self.pair]).decode()

    @classmethod
    def of(cls, text: str) -> "ApartKey":
        """Return the key that `text` encodes."""
        node_model, one, other = orjson.loads(text)
        return cls(node_model, (one, other))


class BrokenGuarantee(NamedTuple):
    """The newest measurement that keeps a pair isolated: T_co / T_solo."""

    since_us: int
    job_id: str
    promised_ratio: float
    measured_ratio: float


class GuaranteeCounts(NamedTuple):
    """How many guarantees shutters showed to be kept, and broken."""

    kept: int = 0
    broken: int = 0


class SlowdownGuarantees:
    """Compares what is measured with what was guaranteed. The fold of a copy changes nothing."""

    def __init__(self, state: State, job_table: JobTable) -> None:
        self._job_table = job_table
        # Counts how often pairs were isolated, or allowed again.
        self.revision = 0
        self._rows = state.table("isolated", BrokenGuarantee)
        self._apart = {ApartKey.of(key): why for key, why in self._rows.items()}
        self._counts = state.value("guarantees", GuaranteeCounts)
        self.kept, self.broken = self._counts.get() or GuaranteeCounts()
        # Starts of jobs that accept neighbours in this process, by what said who may be one.
        self.told_by: Counter[str] = Counter()
        self._to_tell: list[tuple[Event, SlowdownPromiseBroken]] = []

    def isolated(self) -> Mapping[str, Set[Pair]]:
        """Return the isolated pairs of applications by node model."""
        found: dict[str, set[Pair]] = {}
        for node_model, pair in self._apart:
            found.setdefault(node_model, set()).add(pair)
        return found

    def make(self, job: JobRecord, rule: Contention) -> None:
        """Guarantee the limit of slowdown to a job that starts, if it accepts neighbours."""
        job.guarantee.slowdown_ratio = rule.max_slowdown if job.job.shareable else 0.0
        if job.job.shareable:
            self.told_by[rule.predictor(job.job.app_id)] += 1
        job.guarantee.state = GuaranteeState.UNMEASURED
        self._job_table.save(job)

    def measure(self, event: Event, message: ShuttersMeasured) -> None:
        """Compare what shutters of an interval show with what was guaranteed.

        Raises RejectedError for what no shutter can have seen, AlreadyAppliedError for a job or an
        attempt that is not known or to which nothing was guaranteed.
        """
        shutters = [Shutter(s.ipc_before, s.ipc_during, s.ipc_after) for s in message.shutters]
        job = self._job_table.get(message.job_id)
        if job is None or job.job.attempt != message.attempt or not job.guarantee.slowdown_ratio:
            raise AlreadyAppliedError(event.id)
        if len(shutters) < LEAST_SHUTTERS:
            return
        measured = least = unfiltered_slowdown(shutters)
        if measured > job.guarantee.slowdown_ratio:
            least, _ = slowdown_interval(shutters, unfiltered_slowdown)
        if least <= job.guarantee.slowdown_ratio:
            self._count(job, GuaranteeState.KEPT)
        else:
            self._break(event, message, job, measured, least)

    def allow(self, _event: Event, message: PairsAllowed) -> None:
        """Let applications start beside each other again, as an operator says. Raises RejectedError
        where no isolated pair is meant."""
        found = [key for key in self._apart if _is_about(message, key)]
        if not found:
            raise RejectedError("app_id", "no such pair is isolated: `coplace policy show`")
        for key in found:
            self._drop(key)
        self.revision += 1

    def of_round(self, ended: Round) -> Iterator[Publish]:
        """Publish the guarantees that were broken in the round."""
        for event, message in self._to_tell:
            message.round, message.told_at_us = ended.number, ended.ended_at_us
            subject = f"{message.job_id}/{message.attempt}/{event.id}"
            yield announce(message, subject, message.job_id, ended)
        self._to_tell = []

    def listed(self) -> list[PairApart]:
        """Return the newest isolated pairs."""
        newest = sorted(self._apart.items(), key=lambda item: (-item[1].since_us, item[0]))
        return [
            PairApart(
                node_model=key.node_model,
                app_id=key.pair[0],
                co_runner_app_id=key.pair[1],
                promised_slowdown_ratio=why.promised_ratio,
                measured_slowdown_ratio=why.measured_ratio,
                job_id=why.job_id,
                since_us=why.since_us,
            )
            for key, why in newest[:MOST_LISTED]
        ]

    @property
    def pairs_apart(self) -> int:
        """Return how many pairs are isolated."""
        return len(self._apart)

    def _break(
        self, event: Event, message: ShuttersMeasured, job: JobRecord, measured: float, least: float
    ) -> None:
        neighbour = self._job_table.get(message.co_runner_job_id)
        beside = neighbour.job.app_id if neighbour else message.co_runner_app_id
        key = ApartKey(message.node_model, pair_of_apps(job.job.app_id, beside))
        is_new = key not in self._apart
        if not is_new and job.guarantee.state is GuaranteeState.BROKEN:
            return
        self._count(job, GuaranteeState.BROKEN)
        why = BrokenGuarantee(event.time_us, message.job_id, job.guarantee.slowdown_ratio, measured)
        self._apart[key] = max(why, self._apart.get(key, why))
        self._rows.put(key.text, self._apart[key])
        self._make_room()
        self._to_tell.append((event, _broken(message, job, beside, measured, least)))
        self.revision += is_new

    def _count(self, job: JobRecord, found: GuaranteeState) -> None:
        """Count the state of a guarantee: one that was broken once stays so."""
        if job.guarantee.state in (found, GuaranteeState.BROKEN):
            return
        self.kept += (found is GuaranteeState.KEPT) - (job.guarantee.state is GuaranteeState.KEPT)
        self.broken += found is GuaranteeState.BROKEN
        self._counts.put(GuaranteeCounts(self.kept, self.broken))
        job.guarantee.state = found
        self._job_table.save(job)

    def _make_room(self) -> None:
        if len(self._apart) > MOST_APART:
            self._drop(min(self._apart, key=lambda key: (self._apart[key].since_us, key)))

    def _drop(self, key: ApartKey) -> None:
        del self._apart[key]
        self._rows.drop(key.text)


def _broken(
    message: ShuttersMeasured, job: JobRecord, beside: str, measured: float, least: float
) -> SlowdownPromiseBroken:
    return SlowdownPromiseBroken(
        job_id=message.job_id,
        attempt=message.attempt,
        app_id=job.job.app_id,
        co_runner_job_id=message.co_runner_job_id,
        co_runner_app_id=beside,
        co_runners=max(message.co_runners, 1),
        node_model=message.node_model,
        promised_slowdown_ratio=job.guarantee.slowdown_ratio,
        measured_slowdown_ratio=measured,
        least_slowdown_ratio=least,
        shutters=len(message.shutters),
        began_at_us=message.began_at_us,
        ended_at_us=message.ended_at_us,
    )


def _is_about(message: PairsAllowed, key: ApartKey) -> bool:
    if message.node_model not in ("", key.node_model):
        return False
    one, other = message.app_id, message.co_runner_app_id
    if one and other:
        return key.pair == pair_of_apps(one, other)
    return not (one or other) or (one or other) in key.pair
