"""The planner: placement's own fold of its inputs, and look-ahead over what it leaves waiting.

A placement that is given the same inputs decides the same. So the planner knows after each round
what placement has started, without asking it, and what a plan would have to be better than.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.plans_pb2 import PlanItem, PlanProposed

from coplace_client.bounds import LENGTHS
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.energy_tariff import Tariff
from shared.placement.processor import placement
from shared.placement.processor.placement import Placement
from shared.planning.region_order import RegionOrder
from shared.scheduling.lookahead import Bounds, LookAhead, Objective, Prices
from shared.scheduling.run_share import RunShare
from shared.scheduling.wait_record import WaitRecord
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import Round
from shared.streams.state.state import State

_log = structlog.get_logger(__name__)

OUTPUT: Final = "placement.plans"
SOURCE: Final = "planner"
KEY: Final = "region"
# What the names of the planner's own tables begin with.
_OWN: Final = "planner-"
# Beside jobs, what the end of a round may fail over.
SEARCH: Final = f"{_OWN}search"
# What a record carries of items: the rest of it is its head.
_MOST_BYTES: Final = 900_000
# A field's tag and length before each item.
_FRAME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Search:
    """What plans are judged by, how far and how often the search for them goes, and how long they
    hold."""

    tariffs: Mapping[str, Tariff]
    prices: Prices
    bounds: Bounds
    most_jobs: int
    period_us: int
    valid_us: int
    # Set where what waits is ordered as a schedule under the caps, and look-ahead does not plan.
    ordering: RegionOrder | None = None

    def look_ahead(self, clusters: Iterable[str], record: WaitRecord) -> LookAhead:
        """Return the search over these clusters, which goes by a record: 1 per kWh where no tariff
        is known."""
        tariffs = tuple(self.tariffs.get(cluster, Tariff()) for cluster in clusters)
        return LookAhead(Objective(tariffs, self.prices), self.bounds, record=record)


class Planner:
    """Proposes a plan after a round, where its forecast is better than that of the policy's own
    order, and withdraws it where it is not any more. A plan that says what the last one did is not
    published again before half of its time is over.
    """

    def __init__(
        self,
        restored: Mapping[str, bytes],
        rules: PolicySettings,
        remember_days: float,
        search: Search,
    ) -> None:
        self._placement = Placement(_others(restored), rules, remember_days)
        self._search = search
        self._own = _Own(restored)
        self._share = self._own.share.get() or RunShare()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Take an event in as placement does, and raise what it raises."""
        payload, share = event.payload, None
        if isinstance(payload, JobFinished):
            share = self._placement.planning.share_of(payload)
        self._placement.handle(event)
        if share is not None:
            self._share.add(share)
            self._own.share.put(self._share)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish what is better than what placement decides from here on, unless it was proposed
        last."""
        self._placement.end_round(ended)
        searched_us, rests_until_us = self._own.searched_us.get() or 0, self._own.rests_until_us
        next_us = max(searched_us + self._search.period_us, rests_until_us.get() or 0)
        if ended.last or ended.ended_at_us < next_us:
            return ()
        items = self._planned(ended)
        return [self._propose(items, ended)] if self._is_new_plan(items, ended) else ()

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what placement keeps, the share that jobs run for, and when what was proposed
        last."""
        return {**self._placement.changes(), **self._own.state.changes()}

    def suspects(self) -> Sequence[str]:
        """Return placement's suspects, whose failures are the planner's too, and its search: no
        job is held that placement starts."""
        return [*self._placement.suspects(), SEARCH]

    def hold_back(self, subject: str, fault: Fault, ended: Round) -> None:
        """Hold a subject back as placement does, so that both know the same; the search rests for
        as long as a plan holds."""
        if subject == SEARCH:
            self._own.rests_until_us.put(ended.ended_at_us + self._search.valid_us)
        else:
            self._placement.hold_back(subject, fault, ended)

    def _planned(self, ended: Round) -> list[PlanItem]:
        """The items of the best plan; none where the policy's order is as good, all of a solved
        plan starts at once, or the region has no cluster yet."""
        self._own.searched_us.put(ended.ended_at_us)
        planning, share = self._placement.planning, self._share.mean
        problem = planning.problem(ended.now_s, share, self._search.most_jobs)
        if not problem.clusters:
            return []
        if (ordering := self._search.ordering) is not None:
            return list(_that_fit(problem.items(ordering.plan(problem.situation, problem.waiting))))
        record = self._own.record.get() or WaitRecord()
        rested, look_ahead = record.rests, self._search.look_ahead(problem.clusters, record)
        plan = look_ahead.plan(problem.situation, problem.waiting, share)
        self._own.record.put(record)
        if record.rests != rested:
            _log.info("look-ahead's record", rests=record.rests, says=record.text)
        return list(_that_fit(problem.items(plan or ())))

    def _is_new_plan(self, items: Sequence[PlanItem], ended: Round) -> bool:
        """Return whether placement would do otherwise by these items than by the last proposal."""
        proposed, waits = self._own.proposed.get() or PlanProposed(), self._placement.planning.waits
        if proposed.valid_until_us <= ended.ended_at_us:
            return bool(items)
        known = [item for item in proposed.items if waits(item.job_id, item.attempt)]
        if [*map(_meaning, known)] != [*map(_meaning, items)]:
            return True
        age_us = ended.ended_at_us - proposed.based_at_us
        return bool(items) and 2 * age_us >= self._search.valid_us

    def _propose(self, items: Iterable[PlanItem], ended: Round) -> Publish:
        proposed = PlanProposed(
            round=ended.number,
            based_at_us=ended.ended_at_us,
            valid_until_us=ended.ended_at_us + self._search.valid_us,
            items=items,
        )
        self._own.proposed.put(proposed)
        event_id = f"{SOURCE}/{proposed.DESCRIPTOR.full_name}/round/{ended.number}"
        return Publish(OUTPUT, Event(event_id, SOURCE, ended.ended_at_us, KEY, proposed))


class _Own:
    """What the planner keeps beside placement's fold: the share that jobs run for, how long they
    waited beside what was forecast, what was proposed last, when a plan was searched for last, and
    until when a search that failed rests."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self.state = State({k: v for k, v in restored.items() if k.startswith(_OWN)})
        self.share = self.state.value(f"{_OWN}share", RunShare)
        self.record = self.state.value(f"{_OWN}record", WaitRecord)
        self.proposed = self.state.value(f"{_OWN}proposed", PlanProposed)
        self.searched_us = self.state.value(f"{_OWN}searched", int)
        self.rests_until_us = self.state.value(f"{_OWN}rests-until", int)
        self.state.require_all_read()


def _others(restored: Mapping[str, bytes]) -> dict[str, bytes]:
    """What placement's fold keeps."""
    return {key: value for key, value in restored.items() if not key.startswith(_OWN)}


def _meaning(item: PlanItem) -> tuple[object, ...]:
    """What placement takes of an item: figures move with each signature."""
    mode = item.cluster, item.freq_ghz
    return item.job_id, item.attempt, *mode, item.tier, item.not_before_us


def _that_fit(items: Iterable[PlanItem]) -> Iterator[PlanItem]:
    """The first items, as many as one record may hold."""
    size_bytes = 0
    for number, item in enumerate(items):
        size_bytes += item.ByteSize() + _FRAME_BYTES
        if number >= LENGTHS["items"].most or size_bytes > _MOST_BYTES:
            return
        yield item


def repair_state(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """Repair placement's state, and forget what a wrong clock proposed and forecast."""
    own = _Own(restored)
    if (own.searched_us.get() or 0) > now_us:
        own.proposed.drop()
        own.record.drop()
        own.searched_us.drop()
    own.rests_until_us.drop()
    return {**placement.repaired(_others(restored), now_us), **own.state.changes()}
