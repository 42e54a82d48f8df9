"""Messages of jobcomp/kafka as facts about jobs: pure. What `squeue` and `sacct` say of a job comes
in the form of such a message too (ADR 0148).

The plugin sends one message at a job's start (its `state` is null) and one at its end. Neither is
a submission, but both carry what one holds: each gives a JobSubmitted, of which folds ignore the
copy, and a JobStarted or JobFinished. Of one run all ways give facts of the same content under the
same ids: what only some ways know of it is a part of the id of what says it.

Parts of a heterogeneous job are jobs, which it is only while it waits: what its first part reports
ends the whole (ADR 0160).

Of a message only what identifies its job must be right, and where a start took place. All else is
cleaned, cut to its bound or left out, and noted in the message's `repaired`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted, RunInterval

from coplace_client.bounds import (
    CORES,
    CORES_PER_NODE,
    JOB_MEMORY_GIB,
    NODE_MEMORY_GIB,
    NODES,
    WALLTIME_S,
)
from coplace_client.errors import RejectedError
from coplace_client.facts import job_fact
from shared.catalogue.contents.check import check_contents
from shared.catalogue.contents.compiled import YEAR_2000_US
from shared.domain.array_tasks import task_id
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.job import job_id
from shared.domain.printable import printable
from shared.domain.resources import MOST_NAME as MOST_RESOURCE_NAME
from shared.slurm.clusters import ClusterMap, say_where_asked, say_where_run
from shared.slurm.exits import exit_of
from shared.slurm.grant_answer import GrantAnswer
from shared.slurm.message import NO_NODES, Message
from shared.slurm.tres import Tres, is_of_nodes, most_important

# Slurm gives a requeued job a new submit time, so that each attempt is a job of its own here; and
# its accounts one that was resized, from when it has other nodes (ADR 0149).
_ATTEMPT: Final = 1
_UNLIMITED_S: Final = WALLTIME_S.most
_APP_ID: Final = re.compile(r"\bapp_id=([^\s,;]+)")
_APP_ID_OF_SCRIPT: Final = re.compile(
    r"^#SBATCH [^\n]*--comment[= ]\S*\bapp_id=([^\s,;'\"]+)", re.MULTILINE
)
# Characters of a script: its options come first.
_MOST_SCRIPT: Final = 16_384
_SECOND_US: Final = 1_000_000
_LONGEST_RUN_US: Final = round(WALLTIME_S.most) * _SECOND_US
_MOST_CLUSTER: Final = 128
_NO_USER: Final = "unknown"

OUTCOMES: Final = {
    "COMPLETED": JobOutcome.JOB_OUTCOME_COMPLETED,
    "FAILED": JobOutcome.JOB_OUTCOME_FAILED,
    "NODE_FAIL": JobOutcome.JOB_OUTCOME_FAILED,
    "BOOT_FAIL": JobOutcome.JOB_OUTCOME_FAILED,
    "LAUNCH_FAILED": JobOutcome.JOB_OUTCOME_FAILED,
    "OUT_OF_MEMORY": JobOutcome.JOB_OUTCOME_FAILED,
    "TIMEOUT": JobOutcome.JOB_OUTCOME_TIMED_OUT,
    "DEADLINE": JobOutcome.JOB_OUTCOME_TIMED_OUT,
    "CANCELLED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "PREEMPTED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "REQUEUED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "REVOKED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "RESIZING": JobOutcome.JOB_OUTCOME_CANCELLED,
}
# Of a run that is over.
ENDED_STATES: Final = frozenset(OUTCOMES)
# In which a job is back in the queue: a message of its run is about the end of that.
_BACK_IN_QUEUE: Final = frozenset({"PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_RUNS: Final = frozenset({"", "RUNNING", "CONFIGURING", "SUSPENDED", "SIGNALING", "STAGE_OUT"})
_RESIZING: Final = "RESIZING"
# How a heterogeneous job ends that starts: its parts are the jobs that run.
STARTED_IN_PARTS: Final = "STARTED_IN_PARTS"
_REQUEUED: Final = "REQUEUED"
# Of what ended otherwise, Slurm's releases and ways have other codes.
_FAILED: Final = "FAILED"
# What a job holds and nobody asks for: Slurm takes what a job kept for what it asked for.
_ENERGY: Final = "3=18446744073709551614"
# Parts that say more of a job, and nothing of who it is and how long it had its nodes.
_OPTIONAL: Final = frozenset(
    {
        *("app_id", "partition", "qos", "node_model", "memory_gib", "memory_gib_per_unit"),
        *("cores_per_unit", "units_per_node", "resources", "resources_per_unit", "failed_nodes"),
        *("cores", "node_names", "ended_as", "exit_code", "signal"),
    }
)

_Payload = TypeVar("_Payload", JobSubmitted, JobStarted, JobFinished)


@dataclass(frozen=True, slots=True)
class Site:
    """What the plugin does not say; `default_cluster` is that of messages that name none, as where
    Slurm has no accounting database; `clusters` is which clusters the Slurm is."""

    name: str
    default_account: str
    node_model: str
    default_cluster: str = ""
    clusters: ClusterMap = field(default_factory=ClusterMap)


def envelopes(message: Message, site: Site, latest_us: int | None = None) -> list[Envelope]:
    """Return the facts that a message reports, in order; times of a run behind `latest_us` are not
    believed. Raises RejectedError, which names the field, where it says not which job it is about,
    or nothing that happened."""
    first, *later = _facts_on_clusters(message, site, latest_us)
    return [first, *_end_of_whole(message, site, latest_us), *later] if later else [first]


def _facts_on_clusters(message: Message, site: Site, latest_us: int | None) -> list[Envelope]:
    submitted = _submitted(message, site)
    first, later = _facts(message, submitted, site, latest_us)
    say_where_asked(first, message, site.clusters)
    return [first, *(say_where_run(each, message, site.clusters) for each in later)]


def _end_of_whole(message: Message, site: Site, latest_us: int | None) -> list[Envelope]:
    """The end of a heterogeneous job, and behind it the submission, by what its first part reports:
    it never starts, or ends as it does. None by a part that was resized, nor by what is known of a
    run that Slurm shows no more."""
    is_first = message.number("het_job_offset") == 0 and _is_part(message)
    is_resized = _state(message) == _RESIZING or _resized_us(message)
    if not is_first or is_resized or message.has("is_recalled"):
        return []
    whole = message.but(het_job_id=None, het_job_offset=None)
    if not _had_nodes(message):
        return _facts_on_clusters(whole, site, latest_us)[::-1] if _outcome(message) else []
    handed_over = {"@end": message.raw("@start"), "elapsed": 0, "suspended": 0}
    whole = whole.but(**handed_over, state="CANCELLED", exit_code=None, failed_node=None)
    asked, ended = _facts_on_clusters(whole, site, latest_us)
    finished = ended.job_finished
    finished.ended_as = STARTED_IN_PARTS
    finished.resources.clear()
    finished.ClearField("memory_gib")
    return [ended, asked]


def _is_part(message: Message) -> bool:
    """Return whether it is of a part of a heterogeneous job."""
    return bool(message.number("het_job_id")) and message.number("het_job_offset") is not None


def _facts(
    message: Message, submitted: JobSubmitted, site: Site, latest_us: int | None
) -> tuple[Envelope, list[Envelope]]:
    """The submission, and what came later, on the Slurm itself."""
    known = tuple(_known_otherwise(message, submitted))
    first = job_fact(site.name, submitted, _number("run", *known), submitted.submitted_at_us)
    outcome = _outcome(message)
    if outcome is not None:
        finished = _finished(message, submitted, outcome, site, latest_us)
        more = (*_known_pause(message, finished), *_known_failed(finished), *_known_exit(finished))
        number = _number(*_known_word(finished), *more, *known)
        return first, [job_fact(site.name, finished, number, finished.ended_at_us)]
    if _state(message) in _BACK_IN_QUEUE:
        return first, []
    started = _started(message, submitted)
    number = _number(*_known_word(started))
    return first, [job_fact(site.name, started, number, started.started_at_us)]


def submission(message: Message, site: Site) -> Envelope:
    """Return the submission alone, which a job that waits has. Raises as `envelopes`."""
    submitted = _submitted(message, site)
    asked = job_fact(site.name, submitted, _ATTEMPT, submitted.submitted_at_us)
    return say_where_asked(asked, message, site.clusters)


def identify(message: Message, site: Site) -> str:
    """Return the id of the job that a message is about, that of a task behind the id of its array.
    Raises RejectedError where it says not which that is."""
    submitted_s = _submitted_us(message) / 1e6
    array, task = message.number("array_job_id"), message.number("array_task_id")
    if array and task is not None:
        return task_id(job_id(site.name, _cluster(message, site), str(array), submitted_s), task)
    return job_id(site.name, _cluster(message, site), _local_id(message), submitted_s)


def _number(*known: str) -> str:
    """The part of an id behind the job's, with what not every way knows of the run."""
    return "/".join((str(_ATTEMPT), *known))


def _known_otherwise(message: Message, submitted: JobSubmitted) -> Iterator[str]:
    """Yield what is known of a job otherwise than jobcomp would know it: its application by more
    than its name, a name that a database may have changed, a run that Slurm shows no more, one of
    which accounts missed the start."""
    if submitted.app_id != submitted.job_name:
        yield f"app-{submitted.app_id}"
    elif message.has("is_name_doubtful"):
        yield "name-in-accounts"
    if message.has("is_recalled"):
        yield "recalled"
    if message.has("is_by_script"):
        yield "by-script"
    if message.has("is_start_unknown"):
        yield "start-unknown"


def _known_word(run: JobStarted | JobFinished) -> tuple[str, ...]:
    """Of a part of a heterogeneous job the word on the grant of the whole says the clock alone."""
    if run.grant:
        return (f"grant-{run.grant}",)
    return (f"clock-{run.freq_ghz:g}",) if run.freq_ghz else ()


def _known_pause(message: Message, finished: JobFinished) -> tuple[str, ...]:
    return (f"suspended-{message.number('suspended')}s",) if finished.intervals else ()


def _known_failed(finished: JobFinished) -> tuple[str, ...]:
    """Which node failed of several not every way says."""
    if len(finished.failed_nodes) == 0 or finished.nodes <= 1:
        return ()
    return (f"failed-{','.join(fold(finished.failed_nodes))}",)


def _known_exit(finished: JobFinished) -> Iterator[str]:
    """By what a job failed not every way says."""
    if finished.exit_code:
        yield f"exit-{finished.exit_code}"
    if finished.signal:
        yield f"signal-{finished.signal}"


def _submitted_us(message: Message) -> int:
    return _resized_us(message) or message.needed_time_us("@submit")


def _resized_us(message: Message) -> int:
    """When a job got other nodes than it had, and keeps these to its end; 0 where it never did, or
    the message is about those before. The plugin counts `elapsed` from the job's own start then,
    and has the time of the last change as its start."""
    began_us, start_us, end_us = _first_start_us(message), *_times_us(message)
    if not began_us < start_us <= end_us or _state(message) == _RESIZING:
        return 0
    elapsed_us = (message.number("elapsed") or 0) * _SECOND_US
    return start_us if began_us and began_us + elapsed_us == end_us else 0


def _times_us(message: Message) -> tuple[int, int]:
    return message.time_us("@start"), message.time_us("@end")


def _first_start_us(message: Message) -> int:
    """When a job got its first nodes, us, as its waiting time says; 0: nobody knows."""
    eligible_us, wait_s = message.time_us("@eligible"), message.number("@queue_wait")
    return eligible_us + wait_s * _SECOND_US if eligible_us and wait_s is not None else 0


def _submitted(message: Message, site: Site) -> JobSubmitted:
    """Return what was asked for: equal units, one a node, or whole nodes where Slurm does not say
    more."""
    asked = _tres(message, "tres_req")
    units = _within(NODES.most, (asked.nodes, message.number("total_nodes") or 0, 1))
    if asked.nodes and units != asked.nodes:
        message.repaired.add("tres_req")
    cores = _each(asked.cpus, units)
    has_cores = 0 < cores <= CORES_PER_NODE.most
    if asked.cpus and not has_cores:
        message.repaired.add("tres_req")
    submitted = JobSubmitted(
        job_id=identify(message, site),
        attempt=_ATTEMPT,
        app_id=_app_id(message),
        user=_user(message),
        account=message.text("account") or site.default_account,
        nodes=units,
        walltime_s=_walltime_s(message),
        reference_cluster=_cluster(message, site),
        submitted_at_us=_submitted_us(message),
        cores_per_unit=cores if has_cores else 0,
        memory_gib_per_unit=_memory_gib_each(asked, units),
        resources_per_unit=_asked_resources(message, asked, units),
        units_per_node=1 if has_cores else 0,
        job_name=message.text("job_name"),
        sequence=_sequence(message),
        home_cluster=_cluster(message, site),
        qos=message.text("qos"),
    )
    return _without_wrong_parts(message, submitted)


def _sequence(message: Message) -> str:
    """The number that people know it by: a task has that of its array."""
    array, task = message.number("array_job_id"), message.number("array_task_id")
    if array and task is not None:
        return f"{array}_{task}"
    return str(message.number("jobid") or "")


def _within(most: float, found: Iterable[int]) -> int:
    """The first count that there can be."""
    return next(count for count in found if 1 <= count <= most)


def _each(count: int, units: int) -> int:
    """Return the largest share of a unit, where Slurm divides unevenly."""
    return -(-count // units)


def _tres(message: Message, field: str) -> Tres:
    found = Tres.parse(message.raw(field))
    if found.left_out:
        message.repaired.add(field)
    return found


def _walltime_s(message: Message) -> float:
    walltime_s = message.number("time_limit") or _UNLIMITED_S
    if walltime_s > WALLTIME_S.most:
        message.repaired.add("time_limit")
    return min(walltime_s, WALLTIME_S.most)


def _memory_gib_each(asked: Tres, units: int) -> float:
    """Memory of a node; a little is as much as any node has to give."""
    memory_gib = float(asked.memory_gib / units)
    return max(memory_gib, NODE_MEMORY_GIB.least) if memory_gib else 0.0


def _asked_resources(message: Message, asked: Tres, units: int) -> dict[str, int]:
    """What nodes can have so many of: those that are counted in bytes are of no node class."""
    each = {name: _each(count, units) for name, count in asked.gres.items()}
    kept = {
        name: count
        for name, count in each.items()
        if is_of_nodes(count) and len(name) <= MOST_RESOURCE_NAME
    }
    found = most_important(kept)
    if len(found) < len(each):
        message.repaired.add("tres_req")
    return found


def _user(message: Message) -> str:
    """The number of the user where the system has no name for it any more."""
    if user := message.text("username"):
        return user
    message.repaired.add("username")
    number = message.number("user_id")
    return _NO_USER if number is None else str(number)


def _cluster(message: Message, site: Site) -> str:
    cluster = message.text("cluster", _MOST_CLUSTER) or site.default_cluster
    if not cluster:
        raise RejectedError("cluster", "is missing, and no setting names the cluster of this Slurm")
    return cluster


def _started(message: Message, submitted: JobSubmitted) -> JobStarted:
    word = _word(message, submitted)
    return JobStarted(
        job_id=submitted.job_id,
        attempt=_ATTEMPT,
        cluster=submitted.reference_cluster,
        nodes=expand(message.raw("nodes")),
        started_at_us=message.needed_time_us("@start"),
        grant=word.grant,
        freq_ghz=word.freq_ghz,
    )


def _word(message: Message, submitted: JobSubmitted) -> GrantAnswer:
    """The word on the grant that a run is under; of grant 0 where it has none, or nobody says, and
    where it is that of a heterogeneous job of which this is a part."""
    said = GrantAnswer.parse(message.raw("admin_comment"))
    about_it = said.about(submitted.submitted_at_us // _SECOND_US)
    return about_it._replace(grant=0) if _is_part(message) else about_it


def _finished(
    message: Message,
    submitted: JobSubmitted,
    outcome: JobOutcome.ValueType,
    site: Site,
    latest_us: int | None,
) -> JobFinished:
    held, word = _tres(message, "tres_alloc"), _word(message, submitted)
    began_us, ended_us = _run(message, submitted.submitted_at_us, latest_us)
    nodes = _nodes_held(message, held, submitted)
    cores = _cores_held(message, held, submitted, nodes)
    resources = most_important({**held.gres, **held.licenses})
    if len(resources) < len(held.gres) + len(held.licenses):
        message.repaired.add("tres_alloc")
    earliest_us = began_us or ended_us
    if earliest_us < submitted.submitted_at_us:
        message.repaired.add("@submit")
    finished = JobFinished(
        job_id=submitted.job_id,
        attempt=_ATTEMPT,
        outcome=outcome,
        cluster=submitted.reference_cluster,
        app_id=submitted.app_id,
        user=submitted.user,
        account=submitted.account,
        nodes=nodes,
        cores_per_node=_each(cores, nodes),
        submitted_at_us=min(submitted.submitted_at_us, earliest_us),
        started_at_us=began_us,
        ended_at_us=ended_us,
        node_model=printable(site.node_model),
        cores=cores,
        resources=resources,
        failed_nodes=_failed_nodes(message),
        node_names=fold(_expanded(message, "nodes")) if began_us else (),
        ended_as=_ended_as(message),
        partition=message.text("partition"),
        qos=message.text("qos"),
        memory_gib=_memory_gib(held),
        grant=word.grant,
        freq_ghz=word.freq_ghz,
        intervals=_intervals(message, began_us, ended_us, word.freq_ghz),
    )
    if _state(message) == _FAILED:
        finished.exit_code, finished.signal = exit_of(message.raw("exit_code"))
    return _without_wrong_parts(message, finished)


def _ended_as(message: Message) -> str:
    """What Slurm calls the end of a run. One that is back in the queue was requeued."""
    state = _state(message)
    return _REQUEUED if state in _BACK_IN_QUEUE else state if state in OUTCOMES else ""


def _intervals(
    message: Message, began_us: int, ended_us: int, freq_ghz: float
) -> Sequence[RunInterval]:
    """Of a run that was suspended: for how long is known, and not when. None where it was not."""
    suspended_us = (message.number("suspended") or 0) * _SECOND_US
    if not (began_us and 0 < suspended_us <= ended_us - began_us):
        return ()
    went_on = RunInterval(began_at_us=began_us + suspended_us, freq_ghz=freq_ghz)
    went_on.is_clock_unknown = not freq_ghz
    return RunInterval(began_at_us=began_us), went_on


def _without_wrong_parts(message: Message, payload: _Payload) -> _Payload:
    """Leave out what more is said of a job where it is not as the catalogue has it. Raises
    RejectedError for what identifies it."""
    while True:
        try:
            check_contents(payload)
        except RejectedError as error:
            field = error.field.partition("[")[0]
            if field not in _OPTIONAL or not getattr(payload, field):
                raise
            payload.ClearField(field)  # type: ignore[arg-type]
            message.repaired.add(field)
        else:
            return payload


def _run(message: Message, submitted_us: int, latest_us: int | None) -> tuple[int, int]:
    """Return from when (0: it never started) until when a job had its nodes, us. Times that cannot
    be are left out, and derived from the others and `elapsed`."""
    began_us, ended_us = (_plausible_us(message, each, latest_us) for each in ("@start", "@end"))
    if _state(message) == _RESIZING:
        return _part(message, began_us, ended_us)
    elapsed_us = (message.number("elapsed") or 0) * _SECOND_US
    if not _had_nodes(message):
        # Slurm writes when it was cancelled as its start too.
        return 0, ended_us or began_us or submitted_us
    if not ended_us:
        message.repaired.add("@end")
        ended_us = began_us + elapsed_us if began_us else submitted_us
    if not began_us and elapsed_us:
        message.repaired.add("@start")
        began_us = ended_us - elapsed_us
    if began_us > ended_us:
        message.repaired.add("@start")
        began_us = ended_us - elapsed_us
    if began_us and ended_us - began_us > _LONGEST_RUN_US:
        message.repaired.add("@start")
        began_us = ended_us - min(elapsed_us or _LONGEST_RUN_US, _LONGEST_RUN_US)
    return max(began_us, YEAR_2000_US) if began_us else 0, ended_us


def _part(message: Message, start_us: int, end_us: int) -> tuple[int, int]:
    """Return from when until when a job had the nodes that it gave up. The plugin sends the time of
    that as its start and its end. When it got them is known of its first ones alone. Raises
    RejectedError for others."""
    if start_us < end_us:
        return start_us, end_us
    began_us = 0 if _ENERGY in message.raw("tres_req_raw").split(",") else _first_start_us(message)
    if not (end_us and began_us):
        problem = "is not known of a run that was resized before: sacct knows"
        raise RejectedError("@start", f"{problem} (coplace slurm catch-up)")
    return min(began_us, end_us), end_us


def _plausible_us(message: Message, field: str, latest_us: int | None) -> int:
    """A time at which a Slurm can have run, us; else 0."""
    found_us = message.time_us(field)
    is_late = latest_us is not None and found_us > latest_us
    if found_us and (found_us < YEAR_2000_US or is_late):
        message.repaired.add(field)
        return 0
    return found_us


def _had_nodes(message: Message) -> bool:
    """Slurm gives nothing to a job that never left its queue."""
    has_names = message.raw("nodes").strip() not in NO_NODES
    return has_names or bool(message.number("total_nodes"))


def _nodes_held(message: Message, held: Tres, submitted: JobSubmitted) -> int:
    nodes = message.number("total_nodes") or submitted.nodes
    if nodes <= NODES.most:
        return nodes
    message.repaired.add("total_nodes")
    return _within(NODES.most, (len(_expanded(message, "nodes")), held.nodes, submitted.nodes))


def _cores_held(message: Message, held: Tres, submitted: JobSubmitted, nodes: int) -> int:
    """As many as Slurm says where so many can be on the nodes; what was asked for where it never
    had any."""
    said = message.number("total_cpus") or 0
    asked = submitted.nodes * submitted.cores_per_unit
    most = min(CORES.most, nodes * CORES_PER_NODE.most)
    cores = _within(most, (said, held.cpus, asked, nodes))
    if cores != said and _had_nodes(message):
        message.repaired.add("total_cpus")
    return cores


def _memory_gib(held: Tres) -> float:
    """Return the memory of the whole job; a little is as much as is known of a job at all."""
    return max(float(held.memory_gib), JOB_MEMORY_GIB.least) if held.memory_gib else 0.0


def _failed_nodes(message: Message) -> list[str]:
    """Which nodes failed. Where Slurm reports only that one of the job's did, it is known where
    there is but one."""
    if not _state(message).startswith("NODE_FAIL"):
        return []
    if message.raw("failed_node").strip() not in NO_NODES:
        return _expanded(message, "failed_node")
    nodes = _expanded(message, "nodes")
    return nodes if len(nodes) == 1 else []


def _expanded(message: Message, field: str) -> list[str]:
    """The nodes of a host list; none where it is none."""
    try:
        return expand(message.raw(field))
    except RejectedError:
        message.repaired.add(field)
        return []


def _local_id(message: Message) -> str:
    """Return the number as Slurm prints it: parts of a heterogeneous job as JOB+PART."""
    if _is_part(message):
        return f"{message.number('het_job_id')}+{message.number('het_job_offset')}"
    return str(message.needed_number("jobid"))


def _app_id(message: Message) -> str:
    """Return `app_id=NAME` in the job's comment, which the plugin does not send, or in the line of
    its script that asks for one; else the name of the job."""
    found = _APP_ID.search(message.raw("comment"))
    if found is None:
        found = _APP_ID_OF_SCRIPT.search(message.raw("script")[:_MOST_SCRIPT])
    if found is None:
        return message.text("job_name")
    app_id = printable(found[1])
    if app_id != found[1]:
        message.repaired.add("comment")
    return app_id


def _state(message: Message) -> str:
    """The state without who made it: `CANCELLED by 1001`."""
    words = message.text("state").split()
    return words[0] if words else ""


def _outcome(message: Message) -> JobOutcome.ValueType | None:
    """How a job ended; None where it did not. A state that no Slurm had so far ends a run too: how,
    is not known."""
    state, is_told = _state(message), message.has("state")
    if state in OUTCOMES:
        return OUTCOMES[state]
    has_ended = _had_nodes(message) and message.time_us("@end") > 0
    if state in _BACK_IN_QUEUE:
        return JobOutcome.JOB_OUTCOME_CANCELLED if has_ended else None
    if state in _RUNS and (state or not is_told):
        return None
    if not has_ended:
        shown = message.text("state")[:40]
        raise RejectedError("state", f"must be one of {', '.join(OUTCOMES)}, got {shown!r}")
    message.repaired.add("state")
    return JobOutcome.JOB_OUTCOME_FAILED
