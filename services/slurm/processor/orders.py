"""Orders to Slurm for a decision: pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from coplace.v1 import placement_pb2
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.bounds import WALLTIME_S
from services.slurm.model.jobs import SlurmJob
from shared.domain.hostlist import expand
from shared.slurm.grant_answer import GrantAnswer

_MINUTE_S: Final = 60
_UNLIMITED_MIN: Final = round(WALLTIME_S.most) // _MINUTE_S
_GONE: Final = "Slurm does not have the job any more"
_GIVEN_BACK: Final = "it was given back to Slurm"
_HELD: Final = "held by its user in Slurm"
_CHANGED: Final = "changed in Slurm"
# A decision so soon after a hold was published may not know of it.
_NOT_KNOWN_US: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class Release:
    """Start a held job on these nodes (host lists), within a limit, under a word; on so many and no
    others, where `count` is not 0, and with so many CPUs of each at least, where `least_cpus` is
    not 0. Slurm requeues it by itself where it `may_requeue`."""

    nodes: Sequence[str]
    limit_min: int
    word: GrantAnswer
    count: int = 0
    may_requeue: bool = False
    least_cpus: int = 0

    def __str__(self) -> str:
        where = ",".join(self.nodes) or "any nodes"
        return f"released on {where} at {self.word.freq_ghz:g} GHz for {self.limit_min} min"


@dataclass(frozen=True, slots=True)
class ReleaseParts:
    """Start a held heterogeneous job, each part of it on nodes of its own."""

    parts: Sequence[Release]

    def __str__(self) -> str:
        return f"in parts: {'; '.join(map(str, self.parts))}"


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Let Slurm start a job by its own rules, once its user does not hold it, whatever is decided
    later."""

    def __str__(self) -> str:
        return "left to Slurm"


@dataclass(frozen=True, slots=True)
class Hold:
    """Start a job no more, if it did not start, and leave this word on it."""

    word: GrantAnswer

    def __str__(self) -> str:
        return "held"


@dataclass(frozen=True, slots=True)
class Explain:
    """Leave in a job why it will not start, which its user sees."""

    reason: str

    def __str__(self) -> str:
        return f"explained: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a job, or take it out of the queue."""

    def __str__(self) -> str:
        return "cancelled"


@dataclass(frozen=True, slots=True)
class Suspend:
    """Stop a job where it is."""

    def __str__(self) -> str:
        return "suspended"


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a suspended job run on."""

    def __str__(self) -> str:
        return "resumed"


@dataclass(frozen=True, slots=True)
class Requeue:
    """End a run, and let the job wait again: it is another one then, and the end is seen."""

    def __str__(self) -> str:
        return "requeued"


@dataclass(frozen=True, slots=True)
class Done:
    """Report to Coplace that an action is done, and the clock at which the job runs now; 0: it is
    suspended, or nobody knows."""

    freq_ghz: float = 0.0

    def __str__(self) -> str:
        return f"runs at {self.freq_ghz:g} GHz" if self.freq_ghz else "done"


@dataclass(frozen=True, slots=True)
class Decline:
    """Report to Coplace that a grant did not start, and will not; `refused` are the nodes on which
    Slurm never starts it (host lists), and a `limit` of Slurm's keeps it from all."""

    reason: str
    refused: Sequence[str] = ()
    limit: str = ""

    def __str__(self) -> str:
        return f"declined: {self.reason}"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Report to Coplace that an action on a running job is not done."""

    reason: str

    def __str__(self) -> str:
        return f"refused: {self.reason}"


_Start = Release | ReleaseParts | GiveBack
Order = _Start | Hold | Explain | Cancel | Suspend | Resume | Requeue | Done | Decline | Refuse


def orders(
    decision: PlacementDecided,
    job: SlurmJob | None,
    now_us: int,
    held_at_us: int = 0,
    changed_at_us: int = 0,
) -> list[Order]:
    """Return the orders for a decision on a job of this cluster, which Slurm shows as `job` (None:
    not any more). Again for the same decision, they have no further effect. Where its user holds
    it, `held_at_us` is when that was published, and `changed_at_us` that its terms are others; 0:
    it was not."""
    match decision.verdict:
        case placement_pb2.VERDICT_START:
            if job is not None and _crosses_a_hold(decision, job, held_at_us):
                return [Decline(_HELD)]
            if job is not None and job.is_pending and decision.changed_at_us < changed_at_us:
                is_released = job.word.is_started and job.word.grant == decision.grant
                held = [Hold(GrantAnswer(decision.grant))] if is_released else []
                return [*held, Decline(_CHANGED)]
            return _start(decision, job, now_us)
        case placement_pb2.VERDICT_WITHDRAWN:
            return _withdraw(decision, job)
        case placement_pb2.VERDICT_REJECTED if job is not None and _is_slurms(decision, job):
            is_left = job.is_given_back and (job.is_held_by_user or not job.is_held)
            is_done = is_left or not job.is_pending
            return [] if is_done else [Explain(decision.reason), GiveBack()]
        case placement_pb2.VERDICT_CANCELLED | placement_pb2.VERDICT_REJECTED:
            return _drop(decision, job)
        case placement_pb2.VERDICT_ACTION:
            return _act(decision, job)
    return []


def why_too_soon(
    decision: PlacementDecided, job: SlurmJob | None, now_us: int, held_at_us: int
) -> str:
    """Return why a start is to be tried again: placement would decide the same behind each decline,
    until it takes the job for one that never starts. It may not know yet that its user holds it, or
    the job is being taken back from Slurm. Empty where it is time."""
    if job is None or decision.verdict != placement_pb2.VERDICT_START:
        return ""
    if job.is_lent:
        return "it was given back in silence, and is taken back"
    is_new = now_us < held_at_us + _NOT_KNOWN_US
    crosses = is_new and _crosses_a_hold(decision, job, held_at_us)
    return "its user held it a moment ago" if crosses else ""


def _crosses_a_hold(decision: PlacementDecided, job: SlurmJob, held_at_us: int) -> bool:
    """Return whether a start was decided before the hold of its user was known; one that was
    decided later follows a release in Coplace."""
    is_later = 0 < held_at_us < decision.decided_at_us - _NOT_KNOWN_US
    return job.is_pending and job.is_held_by_user and not is_later


def _start(decision: PlacementDecided, job: SlurmJob | None, now_us: int) -> list[Order]:
    if job is None or not (job.is_pending or job.has_nodes):
        return _over(decision, job)
    if job.has_nodes or job.word.grant > decision.grant:
        return []
    if job.is_given_back:
        return [Decline(_GIVEN_BACK)]
    if job.word == GrantAnswer(decision.grant):
        return [Decline("declined before")]
    if 0 < decision.start_by_us < now_us:
        return [Hold(GrantAnswer(decision.grant)), Decline("too late")]
    if not job.parts:
        return [_release(decision, job, decision.node_names)]
    of_parts = [tuple(each.node_names) for each in decision.parts]
    named = of_parts or _dealt(decision, job)
    longest_min = max(part.asked_limit_min or _UNLIMITED_MIN for part in job.parts)
    pairs = zip(job.parts, named, strict=True)
    return [ReleaseParts([_release(decision, part, on, longest_min) for part, on in pairs])]


def _dealt(decision: PlacementDecided, job: SlurmJob) -> list[tuple[str, ...]]:
    """Return the nodes of parts that are no gang: one for each of those that may be on the same
    nodes. What can't be followed is started by who says so, on what is free."""
    hosts = [name for each in decision.node_names for name in expand(each)]
    where = {(tuple(part.partitions), part.features, part.excluded) for part in job.parts}
    wants = any(part.wanted for part in job.parts)
    if len(hosts) != len(job.parts) or len(where) > 1 or wants:
        return [()] * len(job.parts)
    return [(name,) for name in hosts]


def _over(decision: PlacementDecided, job: SlurmJob | None) -> list[Order]:
    """Return the answer for a job that is over: none for a run under this grant, of which the end
    says all."""
    word = job.word if job is not None and job.has_run else GrantAnswer()
    return [] if word.is_started and word.grant == decision.grant else [Decline(_GONE)]


def _release(
    decision: PlacementDecided, job: SlurmJob, named: Iterable[str], longest_min: int = 0
) -> Release:
    """Return the release of a job; or of a part of one, of whose parts the one that may run longest
    may for so many minutes."""
    word = GrantAnswer(decision.grant, is_started=True, freq_ghz=decision.freq_ghz)
    nodes = tuple(named)
    count = sum(len(expand(each)) for each in nodes)
    limit_s = decision.walltime_s
    if longest_min:
        limit_s = limit_s * (job.asked_limit_min or _UNLIMITED_MIN) / longest_min
    limit_min = ceil(limit_s / _MINUTE_S)
    most = 0 if job.keeps_to(count) else count
    # A node that does not boot would end the job before it has run. Slurm starts it on no other.
    may_requeue = decision.boot_s > 0 and job.may_requeue
    # A part of a gang has its nodes to itself when it starts.
    least_cpus = 0 if longest_min else job.least_cpus_on(count, decision.cores_per_node)
    return Release(nodes, limit_min, word, most, may_requeue, least_cpus)


def _is_slurms(decision: PlacementDecided, job: SlurmJob) -> bool:
    """Return whether a heterogeneous job is rejected since no cluster has nodes for all its parts:
    Slurm, which may be several, may have them, or have two parts share a node."""
    kinds = {misfit.kind for misfit in decision.misfits}
    is_late = placement_pb2.MISFIT_KIND_STARTS_TOO_LATE in kinds
    return bool(job.parts) and bool(kinds) and not is_late


def orders_of_refused(
    decision: PlacementDecided, job: SlurmJob | None, reason: str, limit: str = ""
) -> list[Order]:
    """Return the orders for an action or a start that Slurm refuses, in its words, or for a limit:
    the job is not to start under this grant later."""
    if decision.verdict == placement_pb2.VERDICT_ACTION:
        return [Refuse(reason)]
    if job is not None and job.has_nodes:
        return []
    if job is None or not job.is_pending:
        return [Decline(_GONE)]
    if job.word.grant > decision.grant or job.is_given_back:
        return [Decline(reason)]
    return [Hold(GrantAnswer(decision.grant)), Decline(reason, limit=limit)]


def _withdraw(decision: PlacementDecided, job: SlurmJob | None) -> list[Order]:
    """A start that took place has crossed the question, and counts unless it is void."""
    if job is None or not (job.is_pending or job.has_nodes):
        return _over(decision, job)
    if job.is_pending and job.is_given_back:
        return [Decline(_GIVEN_BACK)]
    if job.is_pending and job.word.grant > decision.grant:
        return [Decline("as asked")]
    if job.is_pending:
        return [Hold(GrantAnswer(decision.grant)), _not_started(job)]
    return [Cancel()] if decision.is_void and job.word.grant == decision.grant else []


def _not_started(job: SlurmJob) -> Decline:
    """Return the answer for a start that did not take place: where Slurm would never start the job
    on its nodes, it is not to be granted them again."""
    if why := job.never_starts_for:
        refused = [job.released_on] if job.released_on else []
        return Decline(f"as asked, Slurm says {why}", refused)
    return Decline("as asked")


def _drop(decision: PlacementDecided, job: SlurmJob | None) -> list[Order]:
    """It is not to start any more: its end is then seen. One that left the queue under a grant is
    answered: its end may be of another cluster of this Slurm than the nodes that it was to get."""
    if job is not None and job.is_pending and decision.reason:
        return [Explain(decision.reason), Cancel()]
    if job is not None and (job.is_pending or job.has_nodes):
        return [Cancel()]
    has_run = job is not None and job.has_run
    return [Decline(_GONE)] if decision.grant and not has_run else []


def _act(decision: PlacementDecided, job: SlurmJob | None) -> list[Order]:
    if job is None or not job.has_nodes:
        return []
    action, clock_ghz = decision.action, job.word.freq_ghz
    has_clock = action.freq_ghz in (0, clock_ghz)
    match action.kind:
        case placement_pb2.ACTION_KIND_END:
            return [Cancel()]
        case placement_pb2.ACTION_KIND_SUSPEND:
            return [Done()] if job.is_suspended else [Suspend(), Done()]
        case placement_pb2.ACTION_KIND_RESUME if has_clock:
            return [Resume(), Done(clock_ghz)] if job.is_suspended else [Done(clock_ghz)]
        case placement_pb2.ACTION_KIND_REQUEUE:
            return [Requeue()]
        case placement_pb2.ACTION_KIND_SET_PSTATE if has_clock and not job.is_suspended:
            return [Done(clock_ghz)]
    return [Refuse("Slurm sets the clock of a job at its start")]
