"""The auditor: knows what resource managers truly ran and who may what, and holds against it what
the system decides, explains and charges. It shares no code with the product's rules of who may."""

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
    Verdict,
)
from coplace.v1.pricing_pb2 import CHARGE_REASON_NODE_FAILED, CHARGE_REASON_REQUEUED, ChargeMade

from tests.chaos.audit.evidence import charges_of, events_of
from tests.chaos.clock import HOUR_US
from tests.chaos.journal import End, Run
from tests.chaos.rights.cast import MOST_CLUSTERS, USERS, identity_of
from tests.chaos.rights.region import Region, nodes_of

_CORE_HOUR_SU: Final = Decimal(1)
_MICRO: Final = Decimal("0.000001")
_ENDING: Final = (ACTION_KIND_END, ACTION_KIND_REQUEUE, ACTION_KIND_SUSPEND)
_CONDITION: Final = re.compile(r"after_(any|ok)")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


class Auditor:
    """Watches a region while it runs, and judges it in the end."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._told: dict[str, set[str]] = defaultdict(set)
        self.checks = 0

    def look(self) -> Iterator[str]:
        """What is violated now."""
        yield from self._region.journal.violations
        for decided in self._region.hear():
            self.checks += 1
            yield from self._decided(decided)
        yield from self._explained()

    def close(self) -> Iterator[str]:
        """What is violated in the end."""
        yield from self.look()
        yield from _nodes_given_twice(self._region)
        yield from _charges(self._region)
        yield from _surcharges(self._region)
        yield from _rights(self._region)
        yield from _numbers(self._region)
        yield from self._revealed()

    def _decided(self, decided: PlacementDecided) -> Iterator[str]:
        """A run that truly runs is neither replaced nor ended, nor are its nodes given away."""
        region, at_us = self._region, decided.decided_at_us
        if decided.job_id in region.probes:
            self._hear_of_probe(decided.job_id, f"{decided.verdict} {decided.reason}")
        alive = [run for run in _recent(region) if run.grant and run.is_alive_at(at_us)]
        name = f"{Verdict.Name(decided.verdict)} of {decided.job_id}/{decided.attempt}"
        own = [run for run in alive if run.job_id == decided.job_id]
        if decided.verdict == VERDICT_START:
            yield from (f"nodes are held by one: {name} replaces {_of(run)}" for run in own)
            for run in alive:
                is_there = run.cluster == decided.cluster and {*run.nodes} & {*nodes_of(decided)}
                if is_there and not self._share(run.job_id, decided.job_id):
                    yield f"nodes are held by one: {name} gets the nodes of {_of(run)}"
        if decided.job_id in region.ordered:
            return
        is_end = decided.verdict == VERDICT_ACTION and decided.action.kind in _ENDING
        is_end |= decided.verdict == VERDICT_CANCELLED
        is_end |= decided.verdict == VERDICT_WITHDRAWN and decided.is_void
        for run in own:
            if is_end and decided.grant == run.grant:
                yield f"only the holder ends a run: {name} ({decided.reason}) ends {_of(run)}"

    def _explained(self) -> Iterator[str]:
        """What truly runs is where its resource manager has it, as placement answers."""
        region = self._region
        is_there = any(region._duties[worker.name].queries is not None for worker in region.workers)
        for run in _recent(region) if is_there else ():
            if not run.grant or run.ended_us is not None:
                continue
            self.checks += 1
            told = region.explain(run.job_id)
            found = told and (told.attempt, told.allocation.grant, told.allocation.cluster)
            if found != (run.attempt, run.grant, run.cluster):
                yield f"only the holder ends a run: {_of(run)} runs, and placement has {found}"
        for job_id in [*region.probes][-5:]:
            answer = region.explain(job_id)
            if answer is not None:
                self._hear_of_probe(job_id, f"explained: {answer.reason}")

    def _hear_of_probe(self, job_id: str, text: str) -> None:
        """Keep what was said of a job that waits for one that its user may not see."""
        if job_id in self._region.ordered:
            return
        plain = text.replace(self._region.probes[job_id], "THAT").replace(job_id, "THIS")
        plain = _CONDITION.sub("after", plain)
        kind, _, rest = plain.partition(" ")
        self._told[kind].add(_NUMBER.sub("N", rest))

    def _revealed(self) -> Iterator[str]:
        """Whatever became of the other job, or if there never was one, the same is said."""
        for kind, texts in self._told.items():
            if len(texts) > 1:
                yield f"nothing is said of jobs of others: {kind} with {sorted(texts)}"

    def _share(self, one: str, other: str) -> bool:
        jobs = [self._region.submission(one), self._region.submission(other)]
        return all(job is not None and job.shareable for job in jobs)


def _nodes_given_twice(region: Region) -> Iterator[str]:
    """No attempt runs twice, and no node has two runs at once that were granted and are not both
    shareable."""
    keys: dict[tuple[str, int], Run] = {}
    by_node: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in region.journal.runs:
        if run.key in keys and run.end is not End.POWER:
            yield f"nodes are held by one: {_of(run)} and {_of(keys[run.key])} are one attempt"
        keys[run.key] = run
        for node in run.nodes if run.grant else ():
            for other in by_node[run.cluster, node]:
                jobs = [region.submission(each.job_id) for each in (run, other)]
                are_shared = all(job is not None and job.shareable for job in jobs)
                if run.overlaps(other) and not are_shared:
                    yield f"nodes are held by one: {node} runs {_of(run)} and {_of(other)}"
            by_node[run.cluster, node].append(run)


def _charges(region: Region) -> Iterator[str]:
    """Every run that finished is charged once, for its true time, to its true account."""
    final: dict[tuple[str, int], ChargeMade] = {}
    for charge in charges_of(region.log, region.codec):
        key = charge.job_id, charge.attempt
        if charge.revision != (final[key].revision if key in final else 0) + 1:
            yield f"each run is charged once: {key} has revision {charge.revision} out of order"
        final[key] = charge
    runs = {run.key: run for run in region.journal.runs}
    for key, run in runs.items():
        if run.end is End.FINISHED:
            if key not in final:
                yield f"each run is charged once: {_of(run)} was never charged"
            else:
                yield from _wrong(region, run, final[key])
    for key, charge in final.items():
        if key not in runs and Decimal(charge.price_su) and key[0] not in region.told_by_owner:
            yield f"each run is charged once: {key} never ran and costs {charge.price_su} SU"


def _wrong(region: Region, run: Run, charge: ChargeMade) -> Iterator[str]:
    job, hour = region.submission(run.job_id), Decimal(HOUR_US)
    assert run.ended_us is not None
    cores = sum(run.units) * run.cores_per_unit
    full = cores * Decimal(run.ended_us - run.began_us) / hour * _CORE_HOUR_SU
    told = Decimal(charge.state_of_practice_su)
    if job is not None and (job.user, job.account) != (charge.user, charge.account):
        yield f"each run is charged once: {_of(run)} of {job.account} is {charge.account}'s"
    if abs(told - full) > 2 * _MICRO and not _stood_still(charge):
        yield f"each run is charged once: {_of(run)} costs {full} SU and is charged by {told}"
    is_free = charge.reason in (CHARGE_REASON_NODE_FAILED, CHARGE_REASON_REQUEUED)
    if is_free:
        yield f"each run is charged once: {_of(run)} is free, its nodes are well"
    elif not charge.evidence and Decimal(charge.price_su) != told:
        yield f"each run is charged once: {_of(run)} costs {told} SU, charged {charge.price_su}"


def _stood_still(charge: ChargeMade) -> bool:
    """Time in which a run was suspended is not paid for."""
    return bool(charge.finished.intervals)


def _surcharges(region: Region) -> Iterator[str]:
    """Nobody pays for a run that he was never beside, or gets a discount for one. That a run lost
    its power nobody can know before its operator says so: what was charged before counts only where
    it is in force in the end."""
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in region.journal.runs:
        by_job[run.job_id].append(run)
    charges = list(charges_of(region.log, region.codec))
    last = {(charge.job_id, charge.attempt): charge.revision for charge in charges}
    for charge in charges:
        key = charge.job_id, charge.attempt
        mine = [run for run in by_job[charge.job_id] if run.key == key]
        for row in charge.evidence:
            others = by_job[row.co_runner_job_id]
            is_taken_back = charge.revision < last[key]
            if is_taken_back and any(other.end is End.POWER for other in others):
                continue
            beside_us = sum(_beside_us(one, other) for one in mine for other in others)
            if mine and row.co_runner_job_id and row.duration_s * 1e6 > beside_us + 1:
                pair = f"{charge.job_id}/{charge.attempt} and {row.co_runner_job_id}"
                told = f"{row.duration_s} s, were so for {beside_us / 1e6} s"
                yield f"pairs were together: {pair} are charged as together for {told}"


def _beside_us(one: Run, other: Run) -> int:
    if one.cluster != other.cluster or not {*one.nodes} & {*other.nodes}:
        return 0
    ends = [run.ended_us if run.ended_us is not None else 1 << 62 for run in (one, other)]
    return max(0, min(ends) - max(one.began_us, other.began_us))


def _rights(region: Region) -> Iterator[str]:
    """What takes a role was said by nobody without it."""
    users = {user.name for user in USERS}
    for event in events_of(region.log, region.codec, "jobs.events"):
        told = event.payload
        if isinstance(told, JobSubmitted) and identity_of(event.source) in users:
            if told.priority > 0:
                yield f"priority takes a role: {event.source} submits {told.job_id} with it"
            if told.attempt > 1:
                yield f"attempts come from holders: {event.source} submits {told.attempt}"


def _numbers(region: Region) -> Iterator[str]:
    """No site declared more clusters than it may."""
    clusters: dict[str, set[str]] = defaultdict(set)
    for event in events_of(region.log, region.codec, "commands"):
        if isinstance(event.payload, ClusterDeclared):
            clusters[identity_of(event.source)].add(event.payload.cluster)
    for source, names in clusters.items():
        if len(names) > MOST_CLUSTERS:
            yield f"a site declares its number of clusters: {source} declared {len(names)}"


def _recent(region: Region) -> list[Run]:
    return region.journal.runs[-400:]


def _of(run: Run) -> str:
    grant = f"grant {run.grant}" if run.grant else "no grant"
    return f"{run.job_id}/{run.attempt} on {run.cluster} under {grant}"
