"""Every decision says why, and every job ends or waits with a reason."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_BEGIN,
    CONSTRAINT_KIND_DEPENDENCY,
    VERDICT_CANCELLED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
    Verdict,
)

from tests.chaos.audit.arrays import array_of, tasks_of
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.support.typed import untyped

# A cluster of somebody hostile that is lost, as he says, returns when he likes, so that jobs that
# are suspended there stay so; its nodes that failed, as he says, nobody resumes; and what his runs
# have there they have for ever.
UNLESS_HOSTILE: Final = "rejected unless hostile-"
_KEPT_BY_HOSTILE: Final = re.compile(
    r"hostile-\d+: (lost since |(?:all|\d+ of) \d+ nodes are drained"
    r"|.*under the power cap of cluster hostile-\d+ \(declared by hostile)"
)
_NEEDS_ON_HOSTILE: Final = re.compile(r"(hostile-\d+): needs ")
_AWAITS: Final = re.compile(
    r"(?:after(?:_\w+)?|singleton) (\S+): it (?:has not (?:ended|started)|goes first)"
)


def every_decision_is_explained(evidence: Evidence) -> Iterator[str]:
    """A start says of each other candidate what kept it back; all else gives a reason; what is said
    in words is typed; and no explanation stumbles over a defect, which is reported in its place."""
    for decided in evidence.decisions:
        texts = (decided.reason, *(candidate.constraint for candidate in decided.candidates))
        yield from (f"{_name(decided)}: {text}" for text in texts if "please report" in text)
        yield from (f"{_name(decided)}: {problem}" for problem in untyped(decided))
        if decided.verdict == VERDICT_START:
            yield from _unexplained_start(decided)
        elif not decided.reason:
            yield f"{_name(decided)} has no reason"
        elif decided.verdict in (VERDICT_QUEUED, VERDICT_HELD):
            for candidate in decided.candidates:
                if not candidate.constraint:
                    yield f"{_name(decided)} does not say why not on {candidate.cluster}"


def every_job_ends_or_waits_with_a_reason(evidence: Evidence) -> Iterator[str]:
    """Where all clusters are there and nothing else runs, only what cannot start waits, and what
    fits nowhere was rejected."""
    last = evidence.last_decision
    ended = {job_id for job_id, _ in evidence.world.journal.finishes}
    over = (VERDICT_CANCELLED, VERDICT_REJECTED)
    ended |= {name for name, decided in last.items() if decided.verdict in over}
    submissions = evidence.world.journal.submissions
    tasks = {job_id: tasks_of(job) for job_id, job in submissions.items() if job.array}
    ended |= {name for name, of in tasks.items() if ended.issuperset(of)}
    for job_id in [each for name in submissions for each in tasks.get(name, [name])]:
        array_id = array_of(job_id)
        is_left = job_id not in last and array_id in ended
        is_refused = any(_is_refused(evidence, each) for each in (job_id, array_id))
        if job_id in ended or is_left or is_hostile(job_id) or is_refused:
            continue
        decided = last.get(job_id) or last.get(array_id)
        if decided is None:
            yield f"{job_id} was submitted and nothing was ever decided on it"
        elif not (
            _may_wait(decided, ended)
            or _waits_for_a_time(evidence, decided)
            or _waits_for_a_hostile_cluster(evidence, decided)
        ):
            yield f"{_name(decided)} is the last word on a job that never ended: {decided.reason}"


def no_job_starts_on_a_lost_cluster(evidence: Evidence) -> Iterator[str]:
    """Once placement has read that a cluster is out of reach it decides no start there."""
    for decided in evidence.decisions:
        lost = evidence.known.lost_at(decided.round) & evidence.world.clusters.keys()
        if decided.verdict == VERDICT_START and decided.cluster in lost:
            yield f"{_name(decided)} is on {decided.cluster}, which was lost"


def no_start_delays_a_reservation(evidence: Evidence) -> Iterator[str]:
    """What is promised in a round can be kept beside what starts in it."""
    for decided in evidence.decisions:
        promise = decided.reservation
        if not promise.nodes or not _takes_whole_nodes(evidence, decided.job_id):
            continue
        taken = {
            node
            for start in evidence.starts[decided.round, promise.cluster]
            if start.decided_at_us + int(start.walltime_s * 1e6) > promise.start_at_us
            for node in start.node_indices
        }
        if len(taken) + promise.nodes > evidence.known.most_nodes[promise.cluster]:
            yield f"{_name(decided)} is promised nodes that starts of the round have by then"


def _takes_whole_nodes(evidence: Evidence, job_id: str) -> bool:
    """Of a hostile id the journal may have another submission than placement, to whose topic one
    came past the door."""
    job = evidence.world.journal.submission(job_id)
    if job is None or is_hostile(job_id):
        return False
    return not (job.shareable or job.cores_per_unit)


def _unexplained_start(decided: PlacementDecided) -> Iterator[str]:
    for candidate in decided.candidates:
        if bool(candidate.constraint) == (candidate.cluster == decided.cluster):
            yield f"{_name(decided)} says {candidate.constraint!r} of {candidate.cluster}"


def _may_wait(decided: PlacementDecided, ended: Collection[str]) -> bool:
    if decided.verdict != VERDICT_QUEUED:
        return decided.verdict == VERDICT_HELD
    if UNLESS_HOSTILE in decided.reason or _KEPT_BY_HOSTILE.match(decided.reason):
        return True
    awaits = _AWAITS.search(decided.reason)
    return awaits is not None and (awaits[1] not in ended or is_hostile(awaits[1]))


def _waits_for_a_time(evidence: Evidence, decided: PlacementDecided) -> bool:
    """It begins later than the run is played, or a delay ends later."""
    timed = (CONSTRAINT_KIND_BEGIN, CONSTRAINT_KIND_DEPENDENCY)
    until_us = max((c.until_us for c in decided.constraints if c.kind in timed), default=0)
    return until_us > max(one.ended_at_us for one in evidence.ends_of_rounds())


def _waits_for_a_hostile_cluster(evidence: Evidence, decided: PlacementDecided) -> bool:
    """It is stuck where he said that all is lost, or needs what a run of his has."""
    if decided.verdict == VERDICT_START:
        return is_hostile(decided.cluster) and decided.cluster in evidence.known.lost
    needs = _NEEDS_ON_HOSTILE.match(decided.reason)
    return needs is not None and needs[1] in evidence.held_by_hostile_runs


def _is_refused(evidence: Evidence, job_id: str) -> bool:
    ids = [e.id for e in evidence.world.journal.events.values() if e.key == job_id]
    return any(("placement", event_id) in evidence.refused for event_id in ids)


def _name(decided: PlacementDecided) -> str:
    verdict = Verdict.Name(decided.verdict).removeprefix("VERDICT_")
    return f"{verdict} of {decided.job_id}/{decided.attempt} in round {decided.round}"
