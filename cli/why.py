"""`coplace why`: the state of a job, why it does not start, and when it is expected to."""

from collections.abc import Iterable, Iterator, Sequence
from math import hypot
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
)
from coplace.v1.placement_pb2 import Constraint, ConstraintKind, Misfit
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_HELD,
    JOB_STANDING_REJECTED,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_SUSPENDED,
    JOB_STANDING_WAITING,
    Allocation,
    ClusterOutlook,
    EndedRun,
    ExplainRequest,
    ExplainResponse,
    Forecast,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from rich.box import MARKDOWN
from rich.table import Table

from cli.asking import asking
from cli.notes import utc, with_deviation
from cli.output import Row, Value

# A forecast over a long queue takes seconds, and gives way to decisions.
_WITHIN_S: Final = 30.0
_STANDINGS: Final = {
    JOB_STANDING_WAITING: "waits",
    JOB_STANDING_HELD: "is held: it waits until it is released",
    JOB_STANDING_RESERVED: "waits, and nodes are reserved for it",
    JOB_STANDING_DECIDED: "is to start: its resource manager has not confirmed it yet",
    JOB_STANDING_RUNNING: "runs",
    JOB_STANDING_SUSPENDED: "is suspended",
    JOB_STANDING_FINISHED: "has ended",
    JOB_STANDING_CANCELLED: "is cancelled: it does not start any more",
    JOB_STANDING_REJECTED: "is rejected: submit it anew or requeue it",
}
_OUTCOMES: Final = {
    JOB_OUTCOME_COMPLETED: "completed",
    JOB_OUTCOME_FAILED: "failed",
    JOB_OUTCOME_TIMED_OUT: "timed out",
    JOB_OUTCOME_CANCELLED: "cancelled",
}
# What resource managers call it, in words; others are shown as they are.
_ENDS: Final = {
    "TIMEOUT": "its time limit (TIMEOUT)",
    "DEADLINE": "its deadline (DEADLINE)",
    "OUT_OF_MEMORY": "out of memory (OUT_OF_MEMORY)",
    "NODE_FAIL": "a node failed (NODE_FAIL)",
    "BOOT_FAIL": "a node did not boot (BOOT_FAIL)",
    "LAUNCH_FAILED": "it could not be launched (LAUNCH_FAILED)",
    "PREEMPTED": "another job took its nodes (PREEMPTED)",
    "REQUEUED": "requeued (REQUEUED)",
    "RESIZING": "it got other nodes (RESIZING)",
    "STARTED_IN_PARTS": "its parts run, each a job of its own (STARTED_IN_PARTS)",
}
OVER: Final = frozenset({JOB_STANDING_FINISHED, JOB_STANDING_CANCELLED, JOB_STANDING_REJECTED})
_FIGURES: Final = ("nodes", "GHz", "time s", "power W", "node energy kJ", "part_eff", "tier")
_KINDS: Final = {
    kind: name.removeprefix("CONSTRAINT_KIND_").lower().replace("_", " ")
    for name, kind in ConstraintKind.items()
}
# Host lists of nodes that boot.
_MOST_HOSTS: Final = 8
_CONDITION: Final = "if no other job arrives and all jobs run to their limits"


def ask(address: str, job_id: str) -> ExplainResponse:
    """Ask placement at `address` about a job. Raises UnansweredError."""
    with asking(address) as channel:
        request = ExplainRequest(job_id=job_id)
        return PlacementServiceStub(channel).Explain(request, timeout=_WITHIN_S)


def state_in_words(answer: ExplainResponse) -> str:
    """Return where a job is, in words."""
    return _STANDINGS[answer.standing].partition(":")[0]


def lines(answer: ExplainResponse) -> Iterator[str]:
    """Yield the answer in words, the most important first."""
    attempt = f" (attempt {answer.attempt})" if answer.attempt > 1 else ""
    yield f"{answer.job_id}{attempt} {_STANDINGS[answer.standing]}"
    if answer.reason:
        yield f"why: {answer.reason}"
    yield from _order(answer)
    if answer.HasField("array"):
        yield _tasks(answer)
    yield from _where(answer)
    if answer.HasField("forecast"):
        yield from _forecast(answer.forecast)
    elif any(one.place for one in answer.clusters):
        yield "expected start: not known in time, since placement is busy: ask again"
    yield from _promised(answer)
    unknown = [one.candidate.cluster for one in answer.clusters if one.candidate.memory_unknown]
    if unknown:
        do = "does" if len(unknown) == 1 else "do"
        yield (
            f"memory: not checked on {', '.join(unknown)}, which {do} not declare the memory of a "
            "node: declare memory_gib_per_node"
        )
    if answer.clusters:
        known = f"at {_at(answer.as_of_us)}" if answer.as_of_us else "before placement restarted"
        yield f"as known {known}"


def _where(answer: ExplainResponse) -> Iterator[str]:
    """Yield where the job runs, or ran."""
    if answer.HasField("allocation"):
        yield from _allocation(answer.allocation)
    if answer.HasField("ended"):
        yield from _ran_and_ended(answer.ended)


def _ran_and_ended(ended: EndedRun) -> Iterator[str]:
    """Yield where a run was, how long, and how it ended."""
    if ended.started_at_us:
        ran_s = (ended.ended_at_us - ended.started_at_us) / 1e6 - ended.suspended_s
        on = f"on {','.join(ended.nodes)} of" if ended.nodes else "on"
        pause = f", suspended for {_elapsed(ended.suspended_s)}" if ended.suspended_s else ""
        from_, until = _at(ended.started_at_us), _at(ended.ended_at_us)
        yield f"ran {on} {ended.cluster} for {_elapsed(ran_s)}{pause}: from {from_} until {until}"
    else:
        yield f"never started; it left {ended.cluster} at {_at(ended.ended_at_us)}"
    yield f"end: {', '.join(_how_it_ended(ended))}"


def _how_it_ended(ended: EndedRun) -> Iterator[str]:
    outcome = _OUTCOMES.get(ended.outcome, "ended otherwise")
    yield outcome
    if ended.ended_as and ended.ended_as.lower() != outcome:
        yield _ENDS.get(ended.ended_as, ended.ended_as)
    if ended.exit_code:
        yield f"exit code {ended.exit_code}"
    if ended.signal:
        yield f"signal {ended.signal}"
    if ended.failed_nodes:
        yield f"failed nodes: {','.join(ended.failed_nodes)}"


def _order(answer: ExplainResponse) -> Iterator[str]:
    """Yield by what the job has its place, where resource managers own the order."""
    if answer.manager_priority:
        yield f"order: by its resource manager's priority, {answer.manager_priority:,}"
    elif answer.HasField("manager_priority"):
        yield "order: by arrival, behind all jobs to which resource managers gave a priority"


def _tasks(answer: ExplainResponse) -> str:
    """Return how far the tasks of an array are; of a task where it waits."""
    array = answer.array
    at_most = f", at most {array.at_most} at once" if array.at_most else ""
    following = f"; next is {array.next_index}" if array.HasField("next_index") else ""
    counts = ", ".join(
        f"{getattr(array, state)} {state}"
        for state in ("waiting", "running", "completed", "failed")
        if getattr(array, state)
    )
    of = "" if array.job_id == answer.job_id else f" of {array.job_id}"
    return f"tasks{of}: {array.tasks}{at_most}: {counts}{following}"


def _promised(answer: ExplainResponse) -> Iterator[str]:
    if answer.predicted_runtime_s:
        ran = _duration(answer.predicted_runtime_s)
        yield f"predicted: it runs for {ran}, by its user's last runs; the shortest pass first"
    if answer.HasField("reservation"):
        promise = answer.reservation
        yield (
            f"promised: {promise.nodes} nodes of {promise.cluster} at {_at(promise.start_at_us)} "
            "at the latest, unless a job with a better place arrives"
        )


def state(answer: ExplainResponse) -> str:
    """Return the state of the job, in the words that start the answer."""
    return _STANDINGS[answer.standing].partition(":")[0]


def tables(answer: ExplainResponse) -> Iterator[Table]:
    """Yield the tables of a job that waits: why it does not start on each cluster, and what was
    evaluated there; of one that fits nowhere: what it lacks."""
    if answer.misfits:
        yield _lacks(answer)
    if answer.clusters:
        yield _reasons(answer)
        yield _weighed(answer)


def for_programs(answer: ExplainResponse) -> tuple[list[Row], Sequence[str]]:
    """Return a row with the job's state for each cluster that it waits for or does not fit on, and
    their columns; one row without a cluster where there is none."""
    job: dict[str, Value] = {
        "job": answer.job_id,
        "attempt": answer.attempt,
        "is": _STANDINGS[answer.standing].partition(":")[0],
        "why": answer.reason,
        "start_at_us": answer.forecast.start_at_us or None,
    }
    found: list[Row] = [{**job, **_of_cluster(one)} for one in answer.clusters]
    found += [{**job, **_of_cluster(ClusterOutlook()), **_of_misfit(one)} for one in answer.misfits]
    if not found:
        on = answer.allocation.cluster or None
        found = [{**job, **dict.fromkeys(_of_cluster(ClusterOutlook())), "cluster": on}]
    return found, tuple(found[0])


def _of_cluster(one: ClusterOutlook) -> dict[str, Value]:
    weighed = one.candidate
    return {
        "cluster": weighed.cluster,
        "kind": _kinds(weighed.constraints),
        "not_now": weighed.constraint,
        "place": one.place or None,
        "waiting": one.waiting,
        "free_nodes": one.free_nodes,
        "nodes": weighed.nodes,
        "freq_ghz": weighed.freq_ghz,
        "time_s": weighed.time_s,
        "power_w": weighed.power_w,
        "energy_j": weighed.energy_j,
        "part_eff": weighed.part_eff,
        "tier": weighed.tier,
    }


def _of_misfit(one: Misfit) -> dict[str, Value]:
    return {"cluster": one.cluster, "kind": "misfit", "not_now": one.reason}


def _kinds(constraints: Iterable[Constraint]) -> str:
    """Of what kinds they are, each once, in the words of the schema; a newer placement may have
    others."""
    return ", ".join(dict.fromkeys(_KINDS.get(each.kind, "other") for each in constraints))


def _allocation(found: Allocation) -> Iterator[str]:
    since = f"since {_at(found.since_us)}, until {_at(found.ends_by_us)} at the latest"
    clock = f" at {found.freq_ghz:g} GHz" if found.freq_ghz else ""
    if found.best_freq_ghz:
        clock += f", {found.best_freq_ghz:g} GHz when caps of power allow it"
    plan = f", by the plan of round {found.plan_round}" if found.HasField("plan_round") else ""
    yield f"on {found.nodes} nodes of {found.cluster}{clock}{plan} {since}"
    if found.boots_until_us:
        nodes = ", ".join(found.booting[:_MOST_HOSTS]) or "its nodes"
        yield f"{nodes} boot first: it starts at about {_at(found.boots_until_us)}"
    if found.passed_as_predicted_s:
        yield (
            f"passed the first that waits, since it is predicted to run for "
            f"{_duration(found.passed_as_predicted_s)}, by its user's last runs"
        )
    if found.suspended_since_us:
        since = _at(found.suspended_since_us)
        yield f"suspended since {since}: it keeps its nodes, and its limit waits"
    for asked in found.asked:
        yield (
            f"asked at {_at(asked.asked_at_us)} (action {asked.number}), not answered yet: "
            f"{asked.reason}"
        )
    if found.asked_back:
        yield (
            f"grant {found.grant} was withdrawn and {found.cluster} has not answered: the job "
            "starts nowhere else until it does, or until you seize it (`coplace seize`)"
        )
    elif found.start_by_us:
        yield f"if it is not confirmed by {_at(found.start_by_us)}, the start is withdrawn"


def _forecast(found: Forecast) -> Iterator[str]:
    yield f"expected start: {_start(found)}"
    jobs = "1 job is" if found.jobs_before == 1 else f"{found.jobs_before} jobs are"
    yield f"before it: {jobs} before it in the queue of a cluster that it waits for"


def _start(found: Forecast) -> str:
    if not found.start_at_us:
        return "none, since it fits on no cluster as they are now"
    ahead = _duration((found.start_at_us - found.made_at_us) / 1e6)
    if not found.cluster:
        return f"not before {_at(found.start_at_us)} (in {ahead}), {_CONDITION}"
    return f"{_at(found.start_at_us)} (in {ahead}) on {found.cluster}, {_CONDITION}"


def _lacks(answer: ExplainResponse) -> Table:
    found = Table("cluster", box=MARKDOWN)
    found.add_column("needs", justify="right")
    found.add_column("has", justify="right")
    found.add_column("why it cannot run there")
    for one in answer.misfits:
        figures = (f"{one.needed:g}", f"{one.available:g}") if one.needed else ("", "")
        found.add_row(one.cluster, *figures, one.reason)
    return found


def _reasons(answer: ExplainResponse) -> Table:
    found = Table("cluster", box=MARKDOWN)
    found.add_column("place in its queue", justify="right")
    found.add_column("free nodes", justify="right")
    found.add_column("kind")
    found.add_column("why not now")
    for one in answer.clusters:
        place = f"{one.place} of {one.waiting}" if one.place else "none"
        free = f"{one.free_nodes} of {one.nodes}"
        kinds = _kinds(one.candidate.constraints)
        found.add_row(one.candidate.cluster, place, free, kinds, one.candidate.constraint)
    return found


def _weighed(answer: ExplainResponse) -> Table:
    found = Table("cluster", box=MARKDOWN)
    for name in _FIGURES:
        found.add_column(name, justify="right")
    for one in answer.clusters:
        found.add_row(*_figures(one))
    return found


def _figures(one: ClusterOutlook) -> Iterator[str]:
    weighed = one.candidate
    yield weighed.cluster
    yield str(weighed.nodes)
    explores = f", not {weighed.explores_from_ghz:g}: explored" if weighed.explores_from_ghz else ""
    yield f"{weighed.freq_ghz:g}{explores}"
    yield with_deviation(weighed.time_s, ".0f", weighed.time_sd)
    yield with_deviation(weighed.power_w, ".0f", weighed.power_sd)
    energy_sd = hypot(weighed.time_sd, weighed.power_sd)
    yield with_deviation(weighed.energy_j / 1000, ".1f", energy_sd)
    yield f"{weighed.part_eff:.3f}"
    yield str(weighed.tier)


def _at(time_us: int) -> str:
    """In UTC to the second."""
    return f"{utc(time_us)} UTC"


def _elapsed(seconds: float) -> str:
    """As Slurm writes it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (
        f"{days}-{hours:02}:{minutes:02}:{rest:02}"
        if days
        else f"{hours:02}:{minutes:02}:{rest:02}"
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{hours} h" if hours < 48 else f"{hours // 24} d {hours % 24} h"
