"""Every field of a job that `squeue --json` of a known release shows, and what becomes of it: pure.

What Slurm would act on at the start of a job is mapped, or followed by Slurm itself on the nodes
that were decided, or holds the job with a reason.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coplace_client.errors import RejectedError
from services.slurm.model.het_jobs import why_not_one
from services.slurm.model.jobs import SlurmJob, parse_licences
from services.slurm.model.select_rules import SelectRules
from shared.domain.array_tasks import parse_tasks
from shared.domain.features import parse_features
from shared.domain.hostlist import expand
from shared.slurm.answers import text

# Begins the reason that a job is held for.
CANNOT: Final = "Coplace can't follow it"
_Why = Callable[[SlurmJob, SelectRules], str]


class Treatment(StrEnum):
    """Who acts on a field."""

    PLACED = "Coplace"
    SLURM = "Slurm"
    HELD = "holds the job"
    SHOWN = "nobody"


class JobField(NamedTuple):
    """What becomes of a field. `why_held` returns why its value holds a job that waits, empty where
    it does not."""

    treatment: Treatment
    what: str
    why_held: _Why | None = None


def _is_wide(job: SlurmJob) -> bool:
    return max(job.asked("node_count"), job.asked("max_nodes")) > 1


def _contiguous(job: SlurmJob, _rules: SelectRules) -> str:
    is_asked = job.fields.get("contiguous") is True and _is_wide(job)
    return "nodes side by side (--contiguous)" if is_asked else ""


def _switches(job: SlurmJob, rules: SelectRules) -> str:
    names = ("required_switches", "minimum_switches")
    is_asked = any(job.asked(name) for name in names) and rules.has_topology and _is_wide(job)
    return "nodes below so few switches (--switches)" if is_asked else ""


def _segments(job: SlurmJob, rules: SelectRules) -> str:
    is_asked = job.asked("segment_size") and rules.has_topology and _is_wide(job)
    return "segments of a block of nodes (--segment)" if is_asked else ""


def _burst_buffer(job: SlurmJob, rules: SelectRules) -> str:
    is_asked = text(job.fields.get("burst_buffer")) and rules.has_burst_buffers
    return "a burst buffer, which Slurm fills before the start (--bb)" if is_asked else ""


def _federation(job: SlurmJob, _rules: SelectRules) -> str:
    viable = text(job.fields.get("federation_siblings_viable"))
    return "a job of a federation, which may start on another cluster" if viable else ""


def _reservation(job: SlurmJob, _rules: SelectRules) -> str:
    return "several reservations" if "," in job.reservation else ""


def _refused(check: Callable[[SlurmJob], object]) -> _Why:
    """A field whose form is checked by what raises RejectedError."""

    def why(job: SlurmJob, _rules: SelectRules) -> str:
        try:
            check(job)
        except RejectedError as error:
            return str(error)
        return ""

    return why


def _hosts(name: str) -> _Why:
    return _refused(lambda job: expand(hosts) if (hosts := text(job.fields.get(name))) else None)


_licences: Final = _refused(lambda job: parse_licences(text(job.fields.get("licenses"))))
_tasks: Final = _refused(lambda job: parse_tasks(job.tasks) if job.is_array else None)
_features: Final = _refused(lambda job: parse_features(job.features) if job.features else None)

_PLACED: Final[Mapping[str, str]] = {
    "account": "account",
    "array_job_id": "id of the array and of its tasks",
    "array_max_tasks": "tasks that have nodes at once",
    "array_task_id": "id of the task",
    "cluster": "id, home cluster",
    "comment": "application, where it has `app_id=`",
    "core_spec": "nodes to itself",
    "cpus": "cores of each node",
    "cpus_per_tres": "cores of each node",
    "deadline": "deadline",
    "dependency": "dependencies; what has no equal holds the job until Slurm shows it met",
    "eligible_time": "begin",
    "exclusive": "nodes to itself",
    "job_id": "id",
    "max_nodes": "where a job needs more nodes than the least, up to so many",
    "mcs_label": "nodes to itself, with an MCS plugin",
    "memory_per_cpu": "memory of each node",
    "memory_per_node": "memory of each node",
    "memory_per_tres": "memory of each node",
    "minimum_cpus_per_node": "cores of each node",
    "minimum_tmp_disk_per_node": "nodes with less temporary disk are excluded",
    "name": "name, and application where the comment names none",
    "nice": "priority, within -100 and 100",
    "node_count": "nodes",
    "cores_per_socket": "nodes with fewer are excluded",
    "partition": "partitions",
    "qos": "QOS, and its limits",
    "shared": "nodes to itself, or shared",
    "sockets_per_node": "nodes with fewer are excluded",
    "submit_time": "id, time of the submission",
    "tasks": "cores of each node",
    "tasks_per_core": "cores of each node",
    "thread_spec": "nodes to itself",
    "threads_per_core": "cores of each node; nodes with fewer are excluded",
    "time_limit": "time limit",
    "tres_per_job": "resources of each node",
    "tres_per_node": "resources of each node",
    "tres_per_socket": "resources of each node",
    "tres_per_task": "resources of each node",
    "tres_req_str": "nodes, cores, memory and resources of each node",
    "user_id": "user, where it has no name",
    "user_name": "user",
    "admin_comment": "the words of Coplace on its grants",
    "hold": "held by its user",
    "priority": "held by its user",
    "het_job_id": "the parts of a heterogeneous job are one job until they run, and start together",
    "het_job_id_set": "how many parts a heterogeneous job has",
    "het_job_offset": "id of the part",
    "cron": "jobs of scrontab are started by Slurm",
    "flags": "jobs of scrontab (CRON_JOB) are started by Slurm; the others are Slurm's",
}
_CHECKED: Final[Mapping[str, tuple[str, _Why]]] = {
    "reservation": ("reservation; several hold the job", _reservation),
    "resv_name": ("reservation; several hold the job", _reservation),
    "licenses": ("licences; alternatives hold the job", _licences),
    "array_task_string": ("tasks; what are no ranges holds the job", _tasks),
    "features": ("features; counts and brackets hold a job of several nodes", _features),
    "batch_features": ("features of all its nodes", _features),
    "excluded_nodes": ("nodes that are excluded", _hosts("excluded_nodes")),
    "required_nodes": ("nodes that are wanted", _hosts("required_nodes")),
}
_HELD: Final[Mapping[str, tuple[str, _Why]]] = {
    "contiguous": ("nodes side by side, of a job of several nodes", _contiguous),
    "required_switches": ("of a job of several nodes, with a topology plugin", _switches),
    "minimum_switches": ("as `required_switches` of older releases", _switches),
    "segment_size": ("of a job of several nodes, with a topology plugin", _segments),
    "burst_buffer": ("with a burst buffer plugin", _burst_buffer),
    "federation_siblings_viable": ("a job that may start on another cluster", _federation),
}
# What Slurm does at the start or in the run, on the nodes that were decided.
_SLURM: Final[Mapping[str, str]] = {
    "container": "what the tasks run in",
    "container_id": "what the tasks run in",
    "container_type": "what the tasks run in",
    "cpu_frequency_governor": "the clock of the batch script; its steps have that of Coplace",
    "cpu_frequency_maximum": "the clock of the batch script; its steps have that of Coplace",
    "cpu_frequency_minimum": "the clock of the batch script; its steps have that of Coplace",
    "cpus_per_task": "where the tasks are; the job's CPUs have it",
    "delay_boot": "when nodes are booted with other features",
    "extra": "which of the decided nodes will do, with extra constraints",
    "mail_type": "mails",
    "mail_user": "mails",
    "maximum_switch_wait_time": "how long it waits for fewer switches",
    "memory_update_delay": "memory that it gives back in the run",
    "memory_update_margin": "memory that it gives back in the run",
    "network": "network of the steps",
    "oversubscribe": "it has cores of its own where others would share them",
    "power": "power management of the nodes",
    "prefer": "a wish, which nodes that were decided need not meet",
    "profile": "what is measured",
    "reboot": "its nodes are booted before the start",
    "requeue": "Coplace sets it to 0 at the start",
    "selinux_context": "context of the tasks",
    "sockets_per_board": "where the tasks are",
    "tasks_per_board": "where the tasks are",
    "tasks_per_node": "where the tasks are; the job's nodes have it",
    "tasks_per_socket": "where the tasks are",
    "tasks_per_tres": "where the tasks are",
    "time_minimum": "Slurm may cut the limit down to it where it fills a gap",
    "tres_bind": "where the tasks are",
    "tres_freq": "clocks of accelerators",
    "wckey": "accounts",
}
# What became of it, or a note: Slurm starts no job by it.
_SHOWN: Final = (
    *("accrue_time", "batch_flag", "end_time", "exit_code", "failed_node", "job_state", "nodes"),
    *("pre_sus_time", "resize_time", "restart_cnt", "start_time", "state_reason", "suspend_time"),
    *("system_comment", "tres_alloc_str"),
)
_NOTED: Final = (
    *("allocating_node", "association_id", "batch_host", "billable_tres", "burst_buffer_state"),
    *("cluster_features", "command", "current_working_directory", "derived_exit_code"),
    *("federation_origin", "federation_siblings_active", "gres_detail", "group_id", "group_name"),
    *("job_resources", "job_size_str", "last_sched_evaluation", "licenses_allocated", "max_cpus"),
    *("preempt_time", "preemptable_time", "priority_by_partition", "scheduled_nodes", "show_flags"),
    *("standard_error", "standard_input", "standard_output", "state_description"),
    *("stderr_expanded", "stdin_expanded", "stdout_expanded", "step_id", "submit_line"),
)
# What nobody here reads is kept of no job.
UNREAD: Final = frozenset({*_NOTED, *_SLURM} - {"cpus_per_task", "requeue"})


def _table() -> Iterator[tuple[str, JobField]]:
    for name, what in _PLACED.items():
        yield name, JobField(Treatment.PLACED, what)
    for name, (what, why) in _CHECKED.items():
        yield name, JobField(Treatment.PLACED, what, why)
    for name, (what, why) in _HELD.items():
        yield name, JobField(Treatment.HELD, what, why)
    for name, what in _SLURM.items():
        yield name, JobField(Treatment.SLURM, what)
    for name in (*_SHOWN, *_NOTED):
        yield name, JobField(Treatment.SHOWN, "what became of the job, or a note")


FIELDS: Final[Mapping[str, JobField]] = dict(sorted(_table()))
_HOLDING: Final = tuple(dict.fromkeys(each.why_held for each in FIELDS.values() if each.why_held))


def why_not_followed(job: SlurmJob, rules: SelectRules) -> str:
    """Return what a job asks for that Coplace can't follow, in words; empty where that is
    nothing."""
    found = why_not_one(job) if job.parts else ""
    found = found or next(_reasons(job, rules), "")
    return f"{CANNOT}: {found}" if found else ""


def _reasons(job: SlurmJob, rules: SelectRules) -> Iterator[str]:
    """Yield what of a job can't be followed; of a heterogeneous one the part that it is of."""
    for number, part in enumerate(job.parts):
        yield from (f"{each}, of its part {number}" for each in _reasons(part, rules))
    found = (why(job, rules) for why in _HOLDING if not job.parts)
    yield from (each for each in found if each)


def unknown_fields(job: SlurmJob) -> frozenset[str]:
    """Return the fields that say something and are in no known release."""
    shown = (each.fields for each in job.parts or (job,))
    return frozenset(
        name
        for fields in shown
        for name in fields.keys() - FIELDS.keys()
        if _says_something(fields[name])
    )


def _says_something(value: Any) -> bool:
    if isinstance(value, Mapping):
        if "set" in value:
            return bool(value["set"] and value.get("number")) or bool(value.get("infinite"))
        return any(_says_something(each) for each in value.values())
    return bool(value)
