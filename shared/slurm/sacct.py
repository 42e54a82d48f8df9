"""What `sacct --json` says of runs that are over, as messages of jobcomp/kafka: pure.

Slurm's accounts have a row for each run: a requeue and a resize begin the next, with a submit time
of its own. They know what the plugin does not: the comment, for how long a run was suspended, and
each part of a run that was resized.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from shared.slurm.answers import iso_time, mapping, number, text, texts
from shared.slurm.exits import exit_text
from shared.slurm.facts import ENDED_STATES
from shared.slurm.message import NO_NODES, Message

_MINUTE_S: Final = 60
# Names of lists of resources without one: others are `gres/gpu:a100`, `license/matlab`.
_PLAIN: Final = frozenset({"cpu", "mem", "node", "billing", "vmem", "pages", "energy"})
_REQUEUED: Final = "REQUEUED"
_BATCH: Final = ".batch"
# The table's column takes 255 bytes of whole characters, which have up to four; and Slurm and the
# database replace some.
_MOST_NAME_BYTES: Final = 251
_REPLACED: Final = frozenset("`?")


@dataclass(frozen=True, slots=True)
class SacctRun:
    """One row. It is over, or `is_over` says that it is not."""

    fields: Mapping[str, Any]

    @property
    def state(self) -> str:
        """Return how it ended; a run that was requeued or resized has that beside `PENDING`."""
        found = texts(mapping(self.fields, "state").get("current"))
        said = next((state for state in reversed(found) if state in ENDED_STATES), "")
        return said or (found[0] if found else "")

    @property
    def is_requeued(self) -> bool:
        """Return whether a requeue ended it; the requeue of a job that had ended does so too."""
        return self.state == _REQUEUED

    @property
    def job_number(self) -> int:
        """Return Slurm's own number of the job, that of the task for one of an array."""
        return number(self.fields.get("job_id")) or 0

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state in ENDED_STATES and bool(self._time_s("end"))

    @property
    def has_run(self) -> bool:
        """Return whether it had nodes, as far as accounts know."""
        return self._has_nodes and bool(self._time_s("start"))

    @property
    def is_start_unknown(self) -> bool:
        """Return whether it had nodes and accounts missed when: slurmctld reports starts every 5 s,
        so a run that is requeued before has none."""
        return self._has_nodes and not self._time_s("start")

    @property
    def ended_s(self) -> int:
        """Return when it ended; 0 where it has not."""
        return self._time_s("end")

    @property
    def core_s(self) -> int:
        """Return its core time, without that in which it was suspended. Slurm 22.05 counts the last
        part of a run that was resized from the job's start: each second counts once here."""
        if not self.has_run:
            return 0
        counted_twice_s = self._began_s - self._time_s("start")
        return max(0, self._time_s("elapsed") - counted_twice_s) * self._allocated("cpu")

    def ended_with(self, scripts: Iterable["BatchStep"]) -> "SacctRun":
        """Return it as it ended with its script: Slurm counts a run until its requeue, also where
        the job had ended before."""
        for script in scripts:
            is_its = script.job == self.job_number and self._began_s <= script.began_s
            if is_its and script.ended_s < self.ended_s:
                return self._ended_before(script)
        return self

    def _ended_before(self, script: "BatchStep") -> "SacctRun":
        times = mapping(self.fields, "time")
        elapsed_s = self._time_s("elapsed") - (self.ended_s - script.ended_s)
        ended = {**times, "end": script.ended_s, "elapsed": max(0, elapsed_s)}
        return SacctRun(
            {
                **self.fields,
                "time": ended,
                "state": {"current": [script.state]},
                "is_by_script": True,
            }
        )

    def message(self) -> Message:
        """Return what jobcomp/kafka would have sent of it, and what else is known."""
        of, array, het = self.fields, mapping(self.fields, "array"), mapping(self.fields, "het")
        name, comment = text(of.get("name")), mapping(of, "comment")
        limit_min = number(mapping(of, "time").get("limit"))
        array_id, leader = number(array.get("job_id")), number(het.get("job_id"))
        return Message(
            {
                "jobid": number(of.get("job_id")),
                "array_job_id": array_id,
                "array_task_id": _task(array) if array_id else None,
                "het_job_id": leader,
                "het_job_offset": number(het.get("job_offset")) if leader else None,
                "cluster": of.get("cluster"),
                "username": of.get("user") or mapping(of, "association").get("user"),
                "account": of.get("account"),
                "partition": of.get("partition"),
                "qos": of.get("qos"),
                "job_name": name,
                "is_name_doubtful": _is_doubtful(name) or None,
                "is_by_script": of.get("is_by_script"),
                "is_start_unknown": self.is_start_unknown or None,
                "comment": text(comment.get("job")),
                "admin_comment": text(comment.get("administrator")),
                "@submit": iso_time(self._time_s("submission")),
                "@start": iso_time(self._began_s) if self.has_run else None,
                "@end": iso_time(self._time_s("end")),
                "suspended": self._time_s("suspended"),
                "time_limit": limit_min * _MINUTE_S if limit_min else None,
                "nodes": of.get("nodes") if self.has_run else None,
                "total_nodes": self._nodes() if self.has_run else 0,
                "total_cpus": self._allocated("cpu") if self.has_run else 0,
                "tres_req": _tres(mapping(of, "tres").get("requested")),
                "tres_alloc": _tres(mapping(of, "tres").get("allocated")) if self.has_run else "",
                "failed_node": of.get("failed_node"),
                "exit_code": exit_text(of.get("exit_code")),
                "state": self.state,
            }
        )

    @property
    def _has_nodes(self) -> bool:
        return text(self.fields.get("nodes")).strip() not in NO_NODES

    @property
    def _began_s(self) -> int:
        """When it got its nodes: not before the change that it was submitted by."""
        return max(self._time_s("start"), self._time_s("submission"))

    def _time_s(self, name: str) -> int:
        return max(0, number(mapping(self.fields, "time").get(name)) or 0)

    def _nodes(self) -> int:
        return number(self.fields.get("allocation_nodes")) or self._allocated("node")

    def _allocated(self, kind: str) -> int:
        return next(
            (
                count
                for each, count in _counts(mapping(self.fields, "tres").get("allocated"))
                if each == kind
            ),
            0,
        )


def runs(rows: Sequence[Any]) -> Iterator[SacctRun]:
    """Yield the runs that are over, of the `jobs` of an answer."""
    for row in rows:
        if isinstance(row, Mapping) and (run := SacctRun(row)).is_over:
            yield run


class BatchStep(NamedTuple):
    """How the script of a run ended, and when, in seconds of UTC."""

    job: int
    state: str
    began_s: int
    ended_s: int


def batch_steps(said: str) -> Iterator[BatchStep]:
    """Yield the scripts of `sacct --parsable2 --format=JobIDRaw,State,Start,End` that are over."""
    for line in said.splitlines():
        name, state, *times = line.split("|")[:4]
        job, words = name.removesuffix(_BATCH), state.split()
        try:
            began_s, ended_s = (
                round(datetime.fromisoformat(each).replace(tzinfo=UTC).timestamp())
                for each in times
            )
        except ValueError:
            continue
        if name.endswith(_BATCH) and job.isdecimal() and words and words[0] in ENDED_STATES:
            yield BatchStep(int(job), words[0], began_s, ended_s)


def _task(array: Mapping[str, Any]) -> int | None:
    """The index of a task, which 22.05 has under another name."""
    return number(array["task_id"] if "task_id" in array else array.get("task"))


def _is_doubtful(name: str) -> bool:
    """Return whether a job may have had another name than its row."""
    is_cut = len(name.encode(errors="replace")) > _MOST_NAME_BYTES
    return is_cut or not _REPLACED.isdisjoint(name)


def _counts(listed: Any) -> Iterator[tuple[str, int]]:
    """Yield the resources of a list, by the names that Slurm's own lists have."""
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, Mapping):
            continue
        kind, name, count = (
            text(each.get("type")),
            text(each.get("name")),
            number(each.get("count")),
        )
        if kind and count is not None and count >= 0:
            yield (kind if kind in _PLAIN or not name else f"{kind}/{name}"), count


def _tres(listed: Any) -> str:
    """The list as a text, in which memory is in MiB."""
    return ",".join(
        f"{kind}={count}{'M' if kind == 'mem' else ''}" for kind, count in _counts(listed)
    )
