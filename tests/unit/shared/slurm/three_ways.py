"""One run as jobcomp/kafka, `sacct --json` and `squeue --json` show it: forms of 24.11, as far as
they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from shared.domain.hostlist import expand

T0_S: Final = 1_795_700_000
_ENERGY: Final = "3=18446744073709551614"


@dataclass(frozen=True)
class Stretch:
    """The time in which a job has the same nodes: each part of one that is resized."""

    nodes: str
    cores: int
    time_s: int

    @property
    def node_count(self) -> int:
        return len(expand(self.nodes))

    @property
    def tres(self) -> str:
        return f"cpu={self.cores},mem={self.node_count * 512}M,node={self.node_count},billing=1"


@dataclass(frozen=True)
class TrueRun:
    """What took place. Without parts it never ran; suspended was its last part."""

    parts: Sequence[Stretch]
    waited_s: int = 10
    suspended_s: int = 0
    state: str = "COMPLETED"
    exit_code: int = 0
    signal: int = 0
    name: str = "lu.C"
    task: int | None = None
    # Which part of a heterogeneous job it is.
    part: int | None = None
    admin_comment: str = ""

    @property
    def first(self) -> int:
        """The number of the first part of its heterogeneous job; 0: it is of none."""
        return 0 if self.part is None else 9 - self.part

    @property
    def began_s(self) -> int:
        return T0_S + self.waited_s

    @property
    def edges_s(self) -> list[int]:
        """When each part began, and when the last one ended."""
        found = [self.began_s]
        for part in self.parts:
            found.append(found[-1] + part.time_s)
        return found

    @property
    def core_s(self) -> dict[int, int]:
        """The core time of each part, by the submit time that accounts give it."""
        last = len(self.parts) - 1
        return {
            self.submit_s(number): part.cores
            * (part.time_s - (self.suspended_s if number == last else 0))
            for number, part in enumerate(self.parts)
        }

    def submit_s(self, number: int) -> int:
        """When accounts have a part as submitted."""
        return self.edges_s[number] if number else T0_S

    def jobcomp(self) -> list[bytes]:
        """The plugin's records: of a part that was given up both times are its end."""
        if not self.parts:
            never = {"nodes": None, "total_cpus": 0, "total_nodes": 0, "state": "CANCELLED"}
            at = {"@start": _utc(self.began_s), "@end": _utc(self.began_s), "elapsed": 0}
            return [orjson.dumps({**self._record(0), **never, **at})]
        return [self._part_record(number) for number in range(len(self.parts))]

    def _part_record(self, number: int) -> bytes:
        part, (start_s, end_s) = self.parts[number], self.edges_s[number : number + 2]
        is_last = number == len(self.parts) - 1
        given_up = {"state": "RESIZING", "@start": _utc(end_s), "elapsed": 3_600}
        over = {
            "state": "PENDING" if self.state == "REQUEUED" else self.state,
            "@start": _utc(start_s),
            "elapsed": end_s - self.began_s,
        }
        held = {
            "nodes": part.nodes,
            "total_cpus": part.cores,
            "total_nodes": part.node_count,
            "tres_alloc": part.tres,
            "@queue_wait": self.waited_s,
            "@end": _utc(end_s),
        }
        return orjson.dumps({**self._record(number), **held, **(over if is_last else given_up)})

    def _record(self, number: int) -> dict[str, Any]:
        asked = self.parts[number].tres if self.parts else "cpu=2,mem=1G,node=1,billing=1"
        array = {} if self.task is None else {"array_job_id": 7, "array_task_id": self.task}
        return {
            **array,
            "jobid": 9,
            "username": "ada",
            "account": "physics",
            "partition": "all",
            "qos": "normal",
            "cluster": "alpha",
            "job_name": self.name,
            "time_limit": 3_600,
            "tres_req": asked,
            "tres_req_raw": f"1=1,{_ENERGY}" if number else "1=1",
            "@submit": _utc(T0_S),
            "@eligible": _utc(T0_S),
            "het_job_id": self.first,
            "het_job_offset": self.part or 0,
            "failed_node": None,
            "exit_code": "0:0" if self.state != "FAILED" else f"{self.exit_code}:{self.signal}",
        }

    def sacct(self) -> list[dict[str, Any]]:
        """A row for each part."""
        if not self.parts:
            times = {"submission": T0_S, "start": 0, "end": self.began_s, "elapsed": 0}
            return [self._row(times, ["CANCELLED"], "None assigned", 0, "", self._record(0))]
        rows = []
        last = len(self.parts) - 1
        for number, part in enumerate(self.parts):
            start_s, end_s = self.edges_s[number : number + 2]
            pause_s = self.suspended_s if number == last else 0
            times = {"submission": self.submit_s(number), "start": start_s, "end": end_s}
            times |= {"elapsed": end_s - start_s - pause_s, "suspended": pause_s}
            flagged = "RESIZING" if number < last else self.state
            state = ["PENDING", flagged] if flagged in ("RESIZING", "REQUEUED") else [flagged]
            record = self._record(number)
            rows.append(self._row(times, state, part.nodes, part.node_count, part.tres, record))
        return rows

    def _row(
        self,
        times: Mapping[str, int],
        state: Sequence[str],
        nodes: str,
        node_count: int,
        tres: str,
        record: Mapping[str, Any],
    ) -> dict[str, Any]:
        unset = {"set": False, "infinite": False, "number": 0}
        task = unset if self.task is None else {"set": True, "infinite": False, "number": self.task}
        part = unset if self.part is None else {**unset, "set": True, "number": self.part}
        return {
            "job_id": 9,
            "array": {"job_id": 0 if self.task is None else 7, "task_id": task, "task": ""},
            "het": {"job_id": self.first, "job_offset": part},
            "cluster": "alpha",
            "user": "ada",
            "account": "physics",
            "partition": "all",
            "qos": "normal",
            "name": self.name,
            "comment": {"job": "", "administrator": self.admin_comment, "system": ""},
            "time": {**times, "limit": {"set": True, "infinite": False, "number": 60}},
            "state": {"current": [*state], "reason": "None"},
            "nodes": nodes,
            "allocation_nodes": node_count,
            "failed_node": "",
            "exit_code": {
                "return_code": {"set": True, "infinite": False, "number": self.exit_code},
                "signal": {"id": {"set": self.signal > 0, "number": self.signal}},
            },
            "tres": {"allocated": _listed(tres), "requested": _listed(record["tres_req"])},
        }

    def squeue(self) -> list[dict[str, Any]]:
        """The job, of which the last part alone is left; nothing of one that was requeued."""
        if self.state == "REQUEUED":
            return []
        edges_s, has_run = self.edges_s, bool(self.parts)
        part = self.parts[-1] if has_run else Stretch("n1", 2, 0)
        resized_s = edges_s[-2] if len(self.parts) > 1 else 0
        ran_s = part.time_s - self.suspended_s
        record = self._record(len(self.parts) - 1 if has_run else 0)
        return [
            {
                "job_id": 9,
                "array_job_id": 0 if self.task is None else 7,
                "array_task_id": self.task,
                "het_job_id": self.first,
                "het_job_offset": self.part or 0,
                "cluster": "alpha",
                "user_name": "ada",
                "account": "physics",
                "partition": "all",
                "qos": "normal",
                "name": self.name,
                "admin_comment": self.admin_comment,
                "comment": "",
                "submit_time": T0_S,
                "start_time": self.began_s,
                "end_time": edges_s[-1],
                "resize_time": resized_s,
                # It was suspended after a second, and went on then.
                "pre_sus_time": min(1, ran_s) if self.suspended_s else 0,
                "suspend_time": (edges_s[-1] - ran_s + min(1, ran_s) if self.suspended_s else 0),
                "time_limit": 60,
                "nodes": part.nodes if has_run else "",
                "node_count": part.node_count,
                "cpus": part.cores,
                "tres_req_str": record["tres_req"],
                "tres_alloc_str": part.tres if has_run else "",
                "failed_node": "",
                "exit_code": self.exit_code << 8 | self.signal,
                "job_state": [self.state if has_run else "CANCELLED"],
            }
        ]


def _utc(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _listed(tres: str) -> list[dict[str, Any]]:
    """A list as later versions write it, memory in MiB."""
    pairs = [each.split("=") for each in tres.split(",") if each]
    counts = {kind: count.replace("1G", "1024").rstrip("M") for kind, count in pairs}
    found = [{"type": kind, "name": "", "count": int(count)} for kind, count in counts.items()]
    return [*found, {"type": "energy", "name": "", "count": -2}]
