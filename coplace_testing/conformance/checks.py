"""Decides over an adapter's jobs so that each rule is tried, and finds which were kept."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JobSubmitted
from coplace.v1.placement_pb2 import (
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    ActionKind,
    PlacementDecided,
    Verdict,
)

from coplace_testing.conformance.region import PlayedRegion
from coplace_testing.conformance.rules import AdapterRule, Finding
from shared.process.clock import now_us

# A job a rule that needs one.
JOBS: Final = 8
_GRANT: Final = 1
# A field and a verdict of no schema.
_UNKNOWN_FIELD: Final = b"\xf8\xf0\x04\x01"
_UNKNOWN_VERDICT: Final = 99
_KEPT_AFTER_S: Final = 0.5
# Clocks of two machines differ by so much.
_SKEW_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """How long the check waits, s: for the first jobs, and for an answer."""

    begin_s: float = 600.0
    answer_s: float = 10.0

    @property
    def reconnect_s(self) -> float:
        """Return how long a new connection may take, and a fact to come again: pauses grow."""
        return 6 * self.answer_s


class AdapterCheck:
    """Tries all rules on one adapter. `restart` kills it hard and starts it again, where the check
    may do so."""

    def __init__(
        self,
        region: PlayedRegion,
        patience: AnswerTimes,
        restart: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._region, self._patience, self._restart = region, patience, restart
        self._cluster = ClusterDeclared()
        self._decided: dict[str, PlacementDecided] = {}

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield what was found, rule by rule; the first alone where no job comes."""
        jobs, cluster = "job_submitted", "cluster_declared"
        has = await self._region.until(
            lambda: self._region.events(cluster) and len(self._region.events(jobs)) >= JOBS,
            self._patience.begin_s,
        )
        seen = (
            f"{len(self._region.events(cluster))} clusters, {len(self._region.events(jobs))} jobs"
        )
        yield Finding(AdapterRule.SUBMISSIONS, has, f"{seen}; at least {JOBS} jobs are needed")
        if not has:
            return
        self._cluster = self._region.events(cluster)[-1].cluster_declared
        first, unknown, again, late, cancelled, void, acted, retried = [
            event.job_submitted for event in self._region.events(jobs)[:JOBS]
        ]
        yield await self._starts(first)
        yield await self._ends(first)
        yield await self._ignores_unknown(unknown)
        yield await self._goes_on(again)
        yield await self._declines_late(late)
        yield await self._ends_cancelled(cancelled)
        await self._start(void)
        self._order(void, VERDICT_WITHDRAWN, is_void=True, reason="it is void")
        await self._start(acted)
        yield await self._acts(AdapterRule.ACTIONS, acted, ACTION_KIND_SUSPEND, 1)
        yield await self._acts(AdapterRule.REQUEUES, acted, ACTION_KIND_REQUEUE, 2)
        yield await self._reports_again(retried)
        await asyncio.sleep(self._patience.answer_s)
        finished = self._of(void, "job_finished")
        seen = "its end was reported" if finished else "no end was reported"
        yield Finding(AdapterRule.VOID, not finished, seen)
        yield self._once()
        yield self._times()
        problems = [each.problem for each in self._region.reported if each.problem]
        yield Finding(
            AdapterRule.ACCEPTED, not problems, problems[0] if problems else "all were taken"
        )

    async def _starts(self, job: JobSubmitted) -> Finding:
        started = await self._start(job)
        if started is None:
            return Finding(AdapterRule.STARTS, False, self._silence("JobStarted"))
        wrong = [
            f"{name} {got!r}, not {asked!r}"
            for name, got, asked in (
                ("attempt", started.attempt, job.attempt),
                ("grant", started.grant, _GRANT),
                ("cluster", started.cluster, self._cluster.cluster),
            )
            if got != asked
        ]
        return Finding(AdapterRule.STARTS, not wrong, "; ".join(wrong) or f"grant {started.grant}")

    async def _ends(self, job: JobSubmitted) -> Finding:
        if not await self._within(lambda: self._of(job, "job_finished")):
            return Finding(AdapterRule.ENDS, False, self._silence("JobFinished"))
        [finished, *_] = self._of(job, "job_finished")
        return Finding(AdapterRule.ENDS, finished.grant == _GRANT, f"grant {finished.grant}")

    async def _ignores_unknown(self, job: JobSubmitted) -> Finding:
        odd = PlacementDecided(job_id=job.job_id, attempt=job.attempt)
        odd.verdict = _UNKNOWN_VERDICT  # type: ignore[assignment]  # of a later version
        self._region.decide(odd)
        started = await self._start(job, with_unknown=True)
        seen = "the start was obeyed" if started else self._silence("JobStarted")
        return Finding(AdapterRule.UNKNOWN, started is not None, seen)

    async def _goes_on(self, job: JobSubmitted) -> Finding:
        await self._start(job)
        await asyncio.sleep(_KEPT_AFTER_S)
        asked = [await self._asked_behind(self._region.cut)]
        asked.append(await self._asked_behind(lambda: self._region.cut(repeat=1)))
        if self._restart is not None:
            asked.append(await self._asked_behind(self._restart))
        is_kept = all(cursor == self._region.cursor for cursor in asked)
        shown = ", ".join("no connection" if each is None else repr(each) for each in asked)
        return Finding(
            AdapterRule.CURSOR, is_kept, f"asked behind {shown}; kept: {self._region.cursor!r}"
        )

    async def _asked_behind(self, break_off: Callable[[], Awaitable[object]]) -> str | None:
        before = len(self._region.requests)
        await break_off()
        is_back = await self._region.until(
            lambda: len(self._region.requests) > before, self._patience.reconnect_s
        )
        await asyncio.sleep(_KEPT_AFTER_S)
        return self._region.requests[before].cursor if is_back else None

    async def _declines_late(self, job: JobSubmitted) -> Finding:
        self._region.decide(self._decision(job, start_by_us=now_us() - 2 * _SKEW_US))
        await self._within(lambda: self._of(job, "job_declined") or self._of(job, "job_started"))
        declined, started = self._of(job, "job_declined"), self._of(job, "job_started")
        is_kept = not started and any(each.grant == _GRANT for each in declined)
        seen = "it was started" if started else "it was declined" if declined else ""
        return Finding(AdapterRule.LATE, is_kept, seen or self._silence("JobDeclined"))

    async def _ends_cancelled(self, job: JobSubmitted) -> Finding:
        await self._start(job)
        self._order(job, VERDICT_CANCELLED, reason="its user cancelled it")
        await self._within(lambda: self._of(job, "job_finished"))
        outcomes = [each.outcome for each in self._of(job, "job_finished")]
        seen = f"outcome {outcomes[0]}" if outcomes else self._silence("JobFinished")
        return Finding(AdapterRule.CANCELLED, outcomes == [JOB_OUTCOME_CANCELLED], seen)

    async def _acts(
        self, rule: AdapterRule, job: JobSubmitted, kind: ActionKind.ValueType, number: int
    ) -> Finding:
        action = Action(kind=kind, number=number)
        self._order(job, VERDICT_ACTION, action=action, reason="as a part of the check")
        names = ["job_action_refused"]
        names += ["job_requeued"] if rule is AdapterRule.REQUEUES else ["job_action_done"]

        def answers() -> Sequence[Any]:
            found = [each for name in names for each in self._of(job, name)]
            return [each for each in found if getattr(each, "number", number) == number]

        await self._within(answers)
        if not answers():
            return Finding(rule, False, self._silence("answer"))
        [answer, *_] = answers()
        requeued = answer.DESCRIPTOR.name == "JobRequeued"
        is_kept = not requeued or answer.attempt == job.attempt + 1
        return Finding(rule, is_kept, answer.DESCRIPTOR.name)

    async def _reports_again(self, job: JobSubmitted) -> Finding:
        self._region.is_unavailable = True
        self._region.decide(self._decision(job))
        untaken = self._untaken
        await self._within(lambda: any(e.job_started.job_id == job.job_id for e in untaken()))
        await asyncio.sleep(_KEPT_AFTER_S)
        self._region.is_unavailable = False
        lost = {event.SerializeToString(deterministic=True) for event in untaken()}
        is_kept = bool(lost) and await self._region.until(
            lambda: lost <= self._taken(), self._patience.reconnect_s
        )
        seen = f"{len(lost)} facts were not answered, {len(lost & self._taken())} came again"
        return Finding(AdapterRule.RETRIES, is_kept, seen)

    def _once(self) -> Finding:
        answers: dict[tuple[str, str, int], set[bytes]] = defaultdict(set)
        for name in ("job_started", "job_finished"):
            for event in self._region.events(name):
                fact = getattr(event, name)
                answers[name, fact.job_id, fact.grant].add(fact.SerializeToString())
        twice = [
            f"{name} of {job_id}" for (name, job_id, _), found in answers.items() if len(found) > 1
        ]
        return Finding(
            AdapterRule.ONCE, not twice, ", ".join(twice) or "each grant has one start and end"
        )

    def _times(self) -> Finding:
        wrong = []
        for each in self._region.reported:
            started = each.event.job_started
            decision = self._decided.get(started.job_id)
            if decision and not (
                decision.decided_at_us - _SKEW_US <= started.started_at_us <= each.at_us + _SKEW_US
            ):
                wrong.append(f"{started.job_id} started at {started.started_at_us} us")
            finished = each.event.job_finished
            if finished.ended_at_us > each.at_us + _SKEW_US:
                wrong.append(f"{finished.job_id} ended at {finished.ended_at_us} us")
        return Finding(AdapterRule.TIMES, not wrong, wrong[0] if wrong else "all are plausible")

    async def _start(self, job: JobSubmitted, *, with_unknown: bool = False) -> Any:
        """Decide a start, and return the JobStarted that answers it, None where none comes."""
        decision = self._decision(job)
        if with_unknown:
            decision.MergeFromString(_UNKNOWN_FIELD)
        self._region.decide(decision)
        await self._within(lambda: self._of(job, "job_started"))
        return next(iter(self._of(job, "job_started")), None)

    def _decision(self, job: JobSubmitted, start_by_us: int = 0) -> PlacementDecided:
        cluster = self._cluster
        found = PlacementDecided(
            job_id=job.job_id,
            attempt=job.attempt,
            round=len(self._decided) + 1,
            verdict=VERDICT_START,
            policy="conformance",
            cluster=cluster.cluster,
            freq_ghz=cluster.pstates_ghz[-1],
            node_indices=range(min(max(1, job.nodes), cluster.nodes)),
            cores_per_node=job.cores_per_unit or cluster.cores_per_node,
            walltime_s=job.walltime_s,
            decided_at_us=now_us(),
            start_by_us=start_by_us,
            grant=_GRANT,
        )
        self._decided[job.job_id] = found
        return found

    def _order(self, job: JobSubmitted, verdict: Verdict.ValueType, **fields: Any) -> None:
        order = PlacementDecided(verdict=verdict, **fields)
        order.job_id, order.attempt, order.grant = job.job_id, job.attempt, _GRANT
        order.cluster, order.decided_at_us = self._cluster.cluster, now_us()
        self._region.decide(order)

    def _of(self, job: JobSubmitted, name: str) -> Sequence[Any]:
        facts = (getattr(event, name) for event in self._region.events(name))
        return [fact for fact in facts if fact.job_id == job.job_id]

    def _untaken(self) -> Sequence[Envelope]:
        return [each.event for each in self._region.reported if not each.was_taken]

    def _taken(self) -> set[bytes]:
        taken = (each.event for each in self._region.reported if each.was_taken)
        return {event.SerializeToString(deterministic=True) for event in taken}

    async def _within(self, is_so: Callable[[], object]) -> bool:
        return await self._region.until(is_so, self._patience.answer_s)

    def _silence(self, kind: str) -> str:
        return f"no {kind} within {self._patience.answer_s:g} s"
