"""A job as Slurm's JSON has it, and the word on a grant that is kept in it: pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from coplace_client.errors import RejectedError
from shared.domain.array_tasks import parse_tasks
from shared.slurm.answers import iso_time, number, text, texts
from shared.slurm.exits import exit_text
from shared.slurm.facts import OUTCOMES, Site, identify
from shared.slurm.grant_answer import GrantAnswer
from shared.slurm.message import Message

_HOLDS_NODES: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"}
    # A user's `scancel --signal=STOP`.
    | {"STOPPED"}
)
_MINUTE_S: Final = 60
# It has nodes, and they boot or are prepared. Later releases give flags behind the state.
_CONFIGURES: Final = frozenset({"CONFIGURING", "POWER_UP_NODE"})
# Jobs that a command names.
_AT_ONCE: Final = 100
# The word in a job that was given back to Slurm: no grant starts it any more. In silence it was
# given back until Coplace speaks again (services/slurm/adapters/giving_back.py).
GIVEN_BACK: Final = "coplace given back"
IN_SILENCE: Final = "coplace given back in silence"
# As deploy/slurm/job_submit.lua has it, with the second since which.
_HELD_BY_USER: Final = re.compile(r"coplace held by its user(?: at (\d{1,12}))?")
# What is noted in a job for its user begins so.
NOTED: Final = "coplace: "
_LET_IN: Final = "let in by its user"
_COMMENTS: Final = ("comment", "admin_comment")
# Why Slurm does not start a job on the nodes that it was released on, though they are free. It says
# ReqNodeNotAvail of nodes that are busy too.
_NEVER_THERE: Final = frozenset(
    {
        *("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown"),
        *("PartitionInactive", "InvalidAccount", "InvalidQOS"),
        *("Constraints", "Reservation", "ReservationDeleted", "AccountNotAllowed"),
    }
)


# What it asks of a node, which only Slurm knows of nodes.
_OF_NODES: Final = (
    *("minimum_tmp_disk_per_node", "sockets_per_node", "cores_per_socket", "threads_per_core"),
)
_SHARED: Final = ("shared", "exclusive")
# As releases of Slurm say that a job has its nodes to itself, or with others of its user.
_ALONE: Final = frozenset({"none", "exclusive", "true", "user", "mcs", "topo"})
_MOST_NICE: Final = 100
_CRON: Final = "CRON_JOB"
# As releases say that a job keeps no cores of its nodes for the system.
_NO_SPEC: Final = 0x7FFE
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


@dataclass(frozen=True)
class SlurmJob:
    """A job as `squeue --json` shows it, of which little is worked out twice. `job_id` is Slurm's
    number. A heterogeneous job that waits is one, with the fields of its first part, and its
    `parts` in their order."""

    fields: Mapping[str, Any]
    parts: tuple["SlurmJob", ...] = ()

    @cached_property
    def job_id(self) -> int:
        """Return the number of the job in Slurm; 0 where it has none."""
        return number(self.fields.get("job_id")) or 0

    def id_at(self, site: Site) -> str:
        """Return its id in Coplace. Raises RejectedError where it says not which job it is."""
        of = site.name, site.default_cluster
        if of not in self._ids:
            self._ids[of] = identify(self.message(), site)
        return self._ids[of]

    @cached_property
    def _ids(self) -> dict[tuple[str, str], str]:
        return {}

    @cached_property
    def numbers(self) -> Set[int]:
        """Return the numbers that it is shown under: its own, and those of its array and of the
        heterogeneous job that it is of."""
        return {self.job_id, self.array_number, self.het_number} - {0}

    @property
    def array_number(self) -> int:
        """Return the number of the array that it is of; 0: it is of none."""
        return number(self.fields.get("array_job_id")) or 0

    @cached_property
    def submit_s(self) -> int:
        """Return when it was submitted, or requeued or resized the last time; 0: nobody knows."""
        return max(number(self.fields.get(name)) or 0 for name in ("submit_time", "resize_time"))

    @cached_property
    def state(self) -> str:
        """Return its state; later versions give it as a list, with flags behind it."""
        state = self.fields.get("job_state")
        return str(state[0] if isinstance(state, list) and state else state)

    @property
    def is_readable(self) -> bool:
        """Return whether it says which job it is, since when, and its state, as known releases
        do."""
        return bool(self.job_id and self.submit_s) and self.state.isupper()

    @cached_property
    def is_pending(self) -> bool:
        """Return whether it waits, and has nothing of any node."""
        return self.state not in _HOLDS_NODES and self.state not in OUTCOMES

    @cached_property
    def has_nodes(self) -> bool:
        """Return whether it runs, or is about to."""
        return self.state in _HOLDS_NODES

    @property
    def has_run(self) -> bool:
        """Return whether it has had nodes since it was submitted or requeued."""
        return bool(self.fields.get("nodes"))

    @property
    def is_configuring(self) -> bool:
        """Return whether its nodes boot or are prepared: Slurm has a time of its start, but counts
        it anew when they have booted."""
        return not _CONFIGURES.isdisjoint(texts(self.fields.get("job_state")))

    @property
    def may_requeue(self) -> bool:
        """Return whether its user lets Slurm requeue it."""
        said = self._kept_word
        return said.requeue == "1" if said.has_terms else bool(self.fields.get("requeue"))

    @property
    def is_suspended(self) -> bool:
        """Return whether it is stopped on its nodes."""
        return self.state == "SUSPENDED"

    @cached_property
    def _kept_word(self) -> GrantAnswer:
        """Return the word that Slurm keeps, whichever of its runs that is about."""
        said = GrantAnswer.parse(text(self.fields.get("admin_comment")))
        return said.of_part(self.asked("het_job_offset"))

    @cached_property
    def word(self) -> GrantAnswer:
        """Return the word that was left on it; that of grant 0 where it was written before it
        was requeued."""
        return self._kept_word.about(self.submit_s)

    @property
    def wanted(self) -> str:
        """Return the nodes that its user asked for, as a host list."""
        said = self._kept_word
        return said.wanted if said.has_terms else text(self.fields.get("required_nodes"))

    @property
    def excluded(self) -> str:
        """Return the nodes that its user excluded, as a host list."""
        said = self._kept_word
        return said.excluded if said.parts else text(self.fields.get("excluded_nodes"))

    @property
    def asked_limit_min(self) -> int | None:
        """Return the limit that its user asked for; None: none."""
        said = self._kept_word
        if said.limit:
            return int(said.limit) if said.limit.isdecimal() else None
        return number(self.fields.get("time_limit"))

    def answered(self, word: GrantAnswer, *sizes: str, cpus: str = "") -> GrantAnswer:
        """Return a word with what a start puts something else in the place of; the `sizes` are its
        numbers of nodes, or of those of its parts, and `cpus` its least of a node, where it is the
        first that does."""
        word = word._replace(submit_s=self.submit_s)
        if not self.parts:
            return self._answered(word, "".join(sizes), cpus)
        known = sizes or [""] * len(self.parts)
        of_each = zip(self.parts, known, strict=True)
        return word.with_parts(part._answered(word, size) for part, size in of_each)

    def _answered(self, word: GrantAnswer, sizes: str, cpus: str = "") -> GrantAnswer:
        said = self._kept_word
        limit_min, requeue = number(self.fields.get("time_limit")), self.fields.get("requeue")
        limit = said.limit if said.has_terms else str(limit_min or "UNLIMITED")
        may_requeue = said.requeue if said.has_terms else str(int(bool(requeue)))
        return word._replace(
            limit=limit,
            requeue=may_requeue,
            sizes=self.sizes or sizes,
            cpus=said.cpus or cpus,
            wanted=self.wanted,
            excluded=self.excluded,
        )

    @property
    def released_on(self) -> str:
        """Return the nodes that it is to start on, as a host list; of a gang those of parts that
        never start there."""
        never = (each for each in self.parts or (self,) if each.never_starts_for or not self.parts)
        named = (text(each.fields.get("required_nodes")) for each in never)
        return ",".join(each for each in named if each)

    @property
    def sizes(self) -> str:
        """Return the least and the most number of nodes that its user asked for, 0 for any, where
        Slurm has others since it was released; empty: it has these."""
        return self._kept_word.sizes

    @property
    def least_nodes(self) -> int:
        """Return on how many nodes it runs at least, as its user asked; 0: nobody said."""
        return int(self.sizes.split("-")[0]) if self.sizes else self.asked("node_count")

    @property
    def most_nodes(self) -> int:
        """Return on how many nodes it runs at most, as its user asked; 0: nobody said."""
        return int(self.sizes.split("-")[1]) if self.sizes else self.asked("max_nodes")

    @property
    def least_cpus(self) -> int:
        """Return how many CPUs it needs of each node at least, as its user asked."""
        kept = self._kept_word.cpus
        return int(kept) if kept else self.asked("minimum_cpus_per_node")

    def least_cpus_on(self, nodes: int, cpus: int) -> int:
        """Return the least CPUs of a node by which Slurm gives it so many `cpus` on each of some
        nodes, where that is all that it asked for: Slurm would fill one node after the other. 0
        where there is nothing to say."""
        tasks, of_task = self.asked("tasks"), max(self.asked("cpus_per_task"), 1)
        is_even = tasks * of_task == self.asked("cpus") == nodes * cpus and tasks % nodes == 0
        if nodes > 1 and is_even and not self.is_alone and cpus > self.least_cpus:
            return cpus
        return self.least_cpus if self._kept_word.cpus else 0

    @property
    def has_decided_terms(self) -> bool:
        """Return whether Slurm has what was decided of it, or of a part of it, in the place of what
        its user asked for."""
        return any(each._kept_word.has_terms for each in self.parts or (self,))

    @property
    def was_released(self) -> bool:
        """Return whether it was released before, or a part of it."""
        return any(each._kept_word.grant > 0 for each in self.parts or (self,))

    @property
    def priority(self) -> int:
        """Return its place before others, from -100 to 100: the opposite of its nice value."""
        return -max(-_MOST_NICE, min(_MOST_NICE, self.nice))

    @cached_property
    def nice(self) -> int:
        """Return its nice value. Slurm 22.05 shows one below 0 as a number of 32 bits."""
        said = self.asked("nice")
        return said - 2**32 if said >= 2**31 else said

    @property
    def has_sizes(self) -> str:
        """Return the least and the most number of nodes that Slurm has of it now."""
        return f"{self.asked('node_count')}-{self.asked('max_nodes')}"

    def keeps_to(self, nodes: int) -> bool:
        """Return whether Slurm gives it no more nodes than so many. Of a job whose tasks share CPUs
        nobody can say it without giving each a CPU."""
        return self.asked("max_nodes") == nodes or self.asked("tasks") > self.asked("cpus")

    def asked(self, name: str) -> int:
        """Return a number that it asks for; 0 where it says none."""
        return number(self.fields.get(name)) or 0

    @property
    def asks_of_nodes(self) -> bool:
        """Return whether it asks of a node what placement does not know of nodes."""
        return any(self.asked(name) for name in _OF_NODES)

    @property
    def partitions(self) -> list[str]:
        """Return the partitions that it may run in, by their names."""
        return [name for name in text(self.fields.get("partition")).split(",") if name]

    @property
    def never_starts_for(self) -> str:
        """Return why Slurm will not start it on those nodes; empty where it may."""
        return next((each for each in self.state_reasons if each in _NEVER_THERE), "")

    @property
    def state_reasons(self) -> list[str]:
        """Return why Slurm does not start it, by Slurm's words: of each of its parts."""
        return [text(each.fields.get("state_reason")) for each in self.parts or (self,)]

    @property
    def features(self) -> str:
        """Return what all its nodes must have, that of the batch script's node too. On one node
        brackets are parentheses."""
        said = text(self.fields.get("features"))
        if self.asked("node_count") <= 1:
            said = said.replace("[", "(").replace("]", ")")
        of_script = text(self.fields.get("batch_features"))
        return f"({said})&({of_script})" if said and of_script else said or of_script

    @cached_property
    def is_placed(self) -> bool:
        """Return whether Coplace is to know of it: not of parts of heterogeneous jobs before they
        run, which are one job until then, nor of jobs of scrontab that wait, which are Slurm's."""
        is_part_before = self.is_part and (self.is_pending or self.is_configuring)
        return not (is_part_before or (self.is_pending and self.is_of_scrontab))

    @property
    def het_number(self) -> int:
        """Return the number of the heterogeneous job that it is a part of; 0: it is of none."""
        return self.asked("het_job_id")

    @property
    def is_part(self) -> bool:
        """Return whether it is a part of a heterogeneous job."""
        return self.het_number > 0

    @property
    def is_of_scrontab(self) -> bool:
        """Return whether Slurm starts it again and again by a table of times."""
        return bool(text(self.fields.get("cron"))) or _CRON in texts(self.fields.get("flags"))

    @property
    def note(self) -> str:
        """Return what was noted in it for its user; empty where nothing was."""
        for name in ("system_comment", "comment"):
            if (said := text(self.fields.get(name))).startswith(NOTED):
                return said
        return ""

    @property
    def has_own_comment(self) -> bool:
        """Return whether its user wrote a comment, which nobody else writes over."""
        said = text(self.fields.get("comment"))
        is_note = said.startswith(NOTED) and not self.is_held_by_user
        return said not in ("", _LET_IN) and not is_note

    @cached_property
    def is_held_by_user(self) -> bool:
        """Return whether its user holds it."""
        return self._hold is not None

    @property
    def held_at_us(self) -> int:
        """Return since when its user holds it, by Slurm's clock; 0: he does not, or nobody says."""
        return int(self._hold[1] or 0) * 1_000_000 if self._hold is not None else 0

    @property
    def _hold(self) -> re.Match[str] | None:
        found = (_HELD_BY_USER.search(text(self.fields.get(name))) for name in _COMMENTS)
        return next((each for each in found if each is not None), None)

    @cached_property
    def is_given_back(self) -> bool:
        """Return whether it is Slurm's to start."""
        return GIVEN_BACK in text(self.fields.get("admin_comment"))

    @cached_property
    def is_lent(self) -> bool:
        """Return whether it waits, and was given back for as long as Coplace was silent. What its
        user holds since is his."""
        word, reason = (text(self.fields.get(name)) for name in ("admin_comment", "state_reason"))
        is_users = self.is_held and reason == "JobHeldUser"
        return self.is_pending and IN_SILENCE in word and not is_users

    @property
    def is_held(self) -> bool:
        """Return whether Slurm does not start it: its priority is 0."""
        return number(self.fields.get("priority")) == 0

    @property
    def is_interactive(self) -> bool:
        """Return whether its user sits before it: salloc, or srun without a job."""
        return self.fields.get("batch_flag") is False

    @cached_property
    def is_slurms_own(self) -> bool:
        """Return whether it waits and is of scrontab: Slurm starts it by itself."""
        is_held = self.is_held and not self.is_held_by_user
        return self.is_of_scrontab and self.is_pending and is_held

    @cached_property
    def is_loose(self) -> bool:
        """Return whether Slurm may start it though nobody decided that: it was requeued."""
        was_requeued = self.is_placed and self.is_pending and self.asked("restart_cnt")
        may_start = (number(self.fields.get("priority")) or 0) > 0
        return bool(was_requeued) and may_start and not (self.word.grant or self.is_given_back)

    @cached_property
    def is_array(self) -> bool:
        """Return whether it is the tasks of an array that wait together, or were cancelled so."""
        return bool(self.tasks) and self._task is None

    @property
    def tasks(self) -> str:
        """Return the indices of those tasks, as ranges."""
        return text(self.fields.get("array_task_string")).partition("%")[0]

    @cached_property
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

    @property
    def name_of_waiting(self) -> str:
        """Return how they name what waits of it alone: an array's name is of tasks that run too."""
        return f"{self.array_number}_[{self.tasks}]" if self.is_array else self.name_in_slurm

    def has_task(self, index: int) -> bool:
        """Return whether a task of an array waits in it."""
        try:
            return parse_tasks(self.tasks).ordinal(index) is not None
        except RejectedError:
            return False

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
        keeps = any(0 < self.asked(name) < _NO_SPEC for name in ("core_spec", "thread_spec"))
        return not said.isdisjoint(_ALONE) or keeps

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
        has_run = self.has_run
        limit_min = self.asked_limit_min if self.is_pending else given["time_limit"]
        shown = self.least_nodes if self.is_pending else given["node_count"]
        nodes = (shown or 1) if has_run or self.is_pending else 0
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
                "exit_code": exit_text(of.get("exit_code")),
                "state": self.state if self.state in OUTCOMES else None,
                # Of a run that Slurm shows no more: what placement knows of it.
                "is_recalled": of.get("is_recalled"),
                "ran_on": of.get("ran_on"),
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


def names_of_waiting(jobs: Iterable[SlurmJob]) -> Iterator[str]:
    """Yield what waits of jobs, by Slurm's names of it, as many as a command takes."""
    names = [job.name_of_waiting for job in jobs]
    for at in range(0, len(names), _AT_ONCE):
        yield ",".join(names[at : at + _AT_ONCE])
