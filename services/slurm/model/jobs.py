"""A job as Slurm's JSON has it, and the word on a grant that is kept in it: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coplace_client.errors import RejectedError
from shared.domain.array_tasks import parse_tasks
from shared.domain.features import parse_features
from shared.domain.hostlist import expand
from shared.slurm.answers import iso_time, number, text, texts
from shared.slurm.facts import OUTCOMES
from shared.slurm.grant_answer import GrantAnswer
from shared.slurm.message import Message

_HOLDS_NODES: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"}
    # A user's `scancel --signal=STOP`.
    | {"STOPPED"}
)
_MINUTE_S: Final = 60
# The word in a job that was given back to Slurm: no grant starts it any more.
GIVEN_BACK: Final = "coplace given back"
# As deploy/slurm/job_submit.lua has it.
_HELD_BY_USER: Final = "coplace held by its user"
# Why Slurm does not start a job on the nodes that it was released on, though they are free. It says
# ReqNodeNotAvail of nodes that are busy too.
_NEVER_THERE: Final = frozenset(
    {
        *("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown"),
        *("PartitionInactive", "InvalidAccount", "InvalidQOS"),
        *("Constraints", "Reservation", "ReservationDeleted", "AccountNotAllowed"),
    }
)


_SHARED: Final = ("shared", "exclusive")
# As releases of Slurm say that a job has its nodes to itself, or with others of its user.
_ALONE: Final = frozenset({"none", "exclusive", "true", "user", "mcs"})
_LICENCE: Final = re.compile(r"([^\s:=|,]{1,64})(?:[:=](\d{1,6}))?")


def parse_licences(said: str) -> dict[str, int]:
    """Return how many of each licence a list such as "matlab:2,ansys" names. Raises RejectedError
    for a list with alternatives."""
    found: dict[str, int] = {}
    for each in said.split(",") if said else ():
        licence = _LICENCE.fullmatch(each)
        if licence is None:
            raise RejectedError("licenses", f"{said[:80]!r} is not a list such as matlab:2,ansys")
        found[licence[1]] = found.get(licence[1], 0) + int(licence[2] or 1)
    return found


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as `squeue --json` shows it. `job_id` is Slurm's number."""

    fields: Mapping[str, Any]

    @property
    def job_id(self) -> int:
        """Return the number of the job in Slurm; 0 where it has none."""
        return number(self.fields.get("job_id")) or 0

    @property
    def array_number(self) -> int:
        """Return the number of the array that it is of; 0: it is of none."""
        return number(self.fields.get("array_job_id")) or 0

    @property
    def submit_s(self) -> int:
        """Return when it was submitted, or requeued or resized the last time; 0: nobody knows."""
        return max(number(self.fields.get(name)) or 0 for name in ("submit_time", "resize_time"))

    @property
    def state(self) -> str:
        """Return its state; later versions give it as a list, with flags behind it."""
        state = self.fields.get("job_state")
        return str(state[0] if isinstance(state, list) and state else state)

    @property
    def is_pending(self) -> bool:
        """Return whether it waits, and has nothing of any node."""
        return self.state not in _HOLDS_NODES and self.state not in OUTCOMES

    @property
    def has_nodes(self) -> bool:
        """Return whether it runs, or is about to."""
        return self.state in _HOLDS_NODES

    @property
    def is_suspended(self) -> bool:
        """Return whether it is stopped on its nodes."""
        return self.state == "SUSPENDED"

    @property
    def word(self) -> GrantAnswer:
        """Return the word that was left on it; that of grant 0 where it was written before it
        was requeued."""
        return GrantAnswer.parse(text(self.fields.get("admin_comment"))).about(self.submit_s)

    @property
    def wanted(self) -> str:
        """Return the nodes that its user asked for, as a host list."""
        said = GrantAnswer.parse(text(self.fields.get("admin_comment")))
        return said.wanted if said.grant else text(self.fields.get("required_nodes"))

    @property
    def most_nodes(self) -> int:
        """Return on how many nodes its user lets it run at most; 0: he did not say."""
        said = GrantAnswer.parse(text(self.fields.get("admin_comment")))
        return said.most_nodes if said.grant else self._shown_most_nodes

    @property
    def is_narrowed(self) -> bool:
        """Return whether Slurm has other nodes for it than its user asked for."""
        shown = self.released_on, self._shown_most_nodes
        return shown != (self.wanted, self.most_nodes)

    @property
    def _shown_most_nodes(self) -> int:
        return number(self.fields.get("max_nodes")) or 0

    @property
    def least_nodes(self) -> int:
        """Return on how many nodes it runs at least."""
        return number(self.fields.get("node_count")) or 1

    @property
    def released_on(self) -> str:
        """Return the nodes that it is to start on, as a host list."""
        return text(self.fields.get("required_nodes"))

    @property
    def partitions(self) -> list[str]:
        """Return the partitions that it may run in, by their names."""
        return [name for name in text(self.fields.get("partition")).split(",") if name]

    @property
    def node_names(self) -> list[str]:
        """Return the nodes that it has or had; none where they are no host list."""
        try:
            return expand(text(self.fields.get("nodes")))
        except RejectedError:
            return []

    @property
    def ran_on(self) -> str:
        """Return the cluster that placement knows a run on, of which Slurm shows nothing more;
        empty: Slurm shows its nodes."""
        return text(self.fields.get("ran_on"))

    @property
    def never_starts_for(self) -> str:
        """Return why Slurm will not start it on those nodes; empty where it may."""
        reason = text(self.fields.get("state_reason"))
        return reason if reason in _NEVER_THERE else ""

    @property
    def unmapped(self) -> str:
        """Return what it asks for that Coplace can't follow, in words; empty where that is
        nothing."""
        if "," in self.reservation:
            return "Coplace can't follow it: several reservations"
        try:
            parse_licences(text(self.fields.get("licenses")))
            if self.is_array:
                parse_tasks(self.tasks)
            if features := text(self.fields.get("features")):
                parse_features(features)
            for name in ("excluded_nodes", "required_nodes"):
                if hosts := text(self.fields.get(name)):
                    expand(hosts)
        except RejectedError as error:
            return f"Coplace can't follow it: {error}"
        return ""

    @property
    def is_placed(self) -> bool:
        """Return whether Coplace is to know of it: parts of heterogeneous jobs that wait are
        Slurm's own, since it starts them together."""
        return not (self.is_pending and number(self.fields.get("het_job_id")))

    @property
    def is_held_by_user(self) -> bool:
        """Return whether its user held it when it was submitted."""
        return _HELD_BY_USER in text(self.fields.get("admin_comment"))

    @property
    def is_given_back(self) -> bool:
        """Return whether it is Slurm's to start."""
        return GIVEN_BACK in text(self.fields.get("admin_comment"))

    @property
    def is_held(self) -> bool:
        """Return whether Slurm does not start it: its priority is 0."""
        return number(self.fields.get("priority")) == 0

    @property
    def is_slurms_own(self) -> bool:
        """Return whether it waits and is the first part of a heterogeneous job, which Slurm starts
        by itself."""
        is_first = number(self.fields.get("het_job_id")) == self.job_id != 0
        return is_first and self.is_pending and self.is_held and not self.is_held_by_user

    @property
    def is_loose(self) -> bool:
        """Return whether Slurm may start it though nobody decided that: it was requeued."""
        was_requeued = self.is_pending and number(self.fields.get("restart_cnt"))
        may_start = (number(self.fields.get("priority")) or 0) > 0
        return bool(was_requeued) and may_start and not (self.word.grant or self.is_given_back)

    @property
    def is_array(self) -> bool:
        """Return whether it is the tasks of an array that wait together, or were cancelled so."""
        return bool(self.tasks) and self._task is None

    @property
    def tasks(self) -> str:
        """Return the indices of those tasks, as ranges."""
        return text(self.fields.get("array_task_string")).partition("%")[0]

    @property
    def is_task(self) -> bool:
        """Return whether it is a task of an array whose submission is also its own: Slurm gives one
        that was requeued another submit time."""
        return self._task is not None and not number(self.fields.get("restart_cnt"))

    @property
    def most_tasks(self) -> int:
        """Return how many tasks of the array have nodes at once; 0: any number."""
        return number(self.fields.get("array_max_tasks")) or 0

    @property
    def name_in_slurm(self) -> str:
        """Return how Slurm's commands name it: a task is taken out of its array by that."""
        is_waiting_task = self.is_pending and self._task is not None
        array = number(self.fields.get("array_job_id"))
        return f"{array}_{self._task}" if is_waiting_task else str(self.job_id)

    def task(self, index: int) -> "SlurmJob":
        """Return a task of an array that waits, as if it waited alone."""
        alone = {"array_task_id": index, "array_task_string": ""}
        return SlurmJob({**self.fields, **alone})

    @property
    def _task(self) -> int | None:
        array = number(self.fields.get("array_job_id"))
        return number(self.fields.get("array_task_id")) if array else None

    @property
    def is_alone(self) -> bool:
        """Return whether it shares its nodes with no job of others, as with `--exclusive`."""
        said = {word.lower() for name in _SHARED for word in texts(self.fields.get(name))}
        return not said.isdisjoint(_ALONE)

    @property
    def asked_memory(self) -> bool:
        """Return whether its user asked for memory."""
        return any(number(self.fields.get(name)) for name in ("memory_per_node", "memory_per_cpu"))

    @property
    def reservation(self) -> str:
        """Return the reservation that it asks for; empty: none."""
        of = self.fields
        return text(of.get("reservation")) or text(of.get("resv_name"))

    @property
    def licences(self) -> dict[str, int]:
        """Return the licences that it needs, by name. Raises RejectedError for what is not all of
        a list."""
        return parse_licences(text(self.fields.get("licenses")))

    def ended_by_requeue(self, requeued_s: int) -> "SlurmJob":
        """Return the job as its run ended, of which Slurm shows nothing any more: it was requeued
        at that time. Of one whose start nobody saw the accounts may say more later."""
        ended = {"job_state": "REQUEUED", "end_time": requeued_s}
        unseen = {"is_recalled": True} if self.is_pending else {}
        return SlurmJob({**self.fields, **ended, **unseen})

    def message(self) -> Message:
        """Return what jobcomp/kafka would send of it now."""
        of, given = self.fields, {name: number(self.fields.get(name)) for name in _NUMBERS}
        has_run = bool(of.get("nodes"))
        limit_min = given["time_limit"]
        nodes = (given["node_count"] or 1) if has_run or self.is_pending else 0
        began_s = max(given["start_time"] or 0, given["resize_time"] or 0)
        return Message(
            {
                "jobid": given["job_id"],
                "array_job_id": given["array_job_id"],
                "array_task_id": given["array_task_id"],
                "het_job_id": given["het_job_id"],
                "het_job_offset": given["het_job_offset"] if given["het_job_id"] else None,
                "cluster": of.get("cluster"),
                "username": of.get("user_name"),
                "user_id": given["user_id"],
                "account": of.get("account"),
                "job_name": of.get("name"),
                "comment": text(of.get("comment")),
                "admin_comment": text(of.get("admin_comment")),
                "partition": of.get("partition"),
                "qos": of.get("qos"),
                "@submit": iso_time(self.submit_s),
                "@start": iso_time(began_s) if has_run else None,
                "@end": iso_time(given["end_time"]),
                "suspended": _suspended_s(given, began_s) if has_run else 0,
                "time_limit": limit_min * _MINUTE_S if limit_min else None,
                "nodes": of.get("nodes"),
                "total_nodes": nodes,
                "total_cpus": (given["cpus"] or nodes) if nodes else 0,
                "tres_req": of.get("tres_req_str"),
                "tres_alloc": of.get("tres_alloc_str"),
                "failed_node": of.get("failed_node"),
                "state": self.state if self.state in OUTCOMES else None,
                # Of a run that Slurm shows no more: what placement knows of it.
                "is_recalled": of.get("is_recalled"),
            }
        )


_NUMBERS: Final = (
    *("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset", "submit_time"),
    *("start_time", "end_time", "time_limit", "node_count", "cpus", "user_id", "resize_time"),
    *("suspend_time", "pre_sus_time"),
)


def _suspended_s(given: Mapping[str, int | None], began_s: int) -> int:
    """How long a run was suspended: Slurm keeps how long it had run when it was suspended the last
    time, and when it went on."""
    resumed_s, ended_s = given["suspend_time"] or 0, given["end_time"] or 0
    if not began_s <= resumed_s <= ended_s:
        return 0
    return max(0, resumed_s - began_s - (given["pre_sus_time"] or 0))
