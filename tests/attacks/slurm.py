"""`make fuzz ADAPTER=slurm`: mutated records of jobcomp/kafka and answers of `squeue` and `sinfo`
between honest ones, in process. Nothing ends, no honest one is lost, and memory stays flat.

`python -m tests.attacks.slurm --records 1000000 --seed 1`
"""

import argparse
import asyncio
import json
import random
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import grpc
import structlog
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JobFinished,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    ExplainResponse,
    ListedJob,
    ListedLicences,
    ListedLimit,
    ListedReservation,
    ListJobsRequest,
    QuoteResponse,
    ShowNodesResponse,
)

from coplace_client.calls import UnansweredError
from coplace_client.errors import RejectedError
from services.ingest.jobcomp.app import Jobcomp
from services.ingest.model import Intake
from services.slurm.adapters import drains, obedience, publisher
from services.slurm.adapters.commands import Slurm, SlurmError
from services.slurm.adapters.drains import DrainPublisher
from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.notes import JobNotes
from services.slurm.adapters.obedience import Obedience
from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.model.clusters import (
    NodeHardware,
    UnlikeNodesError,
    declared_cluster,
    uncounted_resources,
)
from services.slurm.model.facts import SlurmTerms
from services.slurm.processor.orders import Release
from shared.catalogue.codec import Codec
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Publish
from shared.catalogue.payloads.domain_types import cores_of, run_us
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.hostlist import expand
from shared.slurm.facts import Site
from shared.streams.stages.dead_letters import QUARANTINED
from shared.streams.stages.unit import EventTimeLimit

_T_S: Final = 1_795_600_000
_NOW_S: Final = _T_S + 7_200.0
_MAX_BYTES: Final = 1_048_576
_PUBLISHED: Final = (
    *(JobSubmitted, JobStarted, JobFinished),
    *(JobHeld, JobReleased, JobPrioritized),
)
_SITE: Final = Site("north", "none", "gold-6254", "alpha")
_TOPICS: Final = Topics()
_CODEC: Final = Codec(_TOPICS)
# Of an honest job, core us.
_RUN: Final = 72 * 3_600_000_000
_BATCH: Final = 20
_HONEST: Final = 5
# Memory may grow by this much from a tenth of the way to the end.
_MOST_GROWTH_MIB: Final = 32.0
# What describes a job: however odd it is, the run is published and as long as it was.
_DESCRIPTIVE: Final = (
    *("job_name", "comment", "qos", "partition", "time_limit", "account", "work_dir", "script"),
    *("tres_req", "username", "failed_node", "name", "user_name", "tres_req_str"),
)
_TEXTS: Final = (
    *("", " ", "\0", "\t\n\r", "\u200b", "\u00a0", "\ud800", "\U0010ffff", "x" * 300, "None"),
    *("(null)", "n[1-", "n[0-999999999]", "n[1-3,]", "]" * 9, "1970-01-01T00:00:00", "Unknown"),
    *("9999-12-31T23:59:59", "0001-01-01T00:00:00+23:59", "cpu=", "cpu=1e9", "gres/=1", "=,=,="),
    *("gres/tmp=10737418240", "gres/x=1T,gres/y=2P", "license/a=99999999999", "mem=9E", "mem=0"),
    *("cpu=1,cpu=2", "gres/\u200b=1", "node=0", "app_id=", "app_id=\x1b[0m", "PENDING", "RESIZING"),
)
_NUMBERS: Final = (
    *(0, -1, 1, 2**31, 2**32 - 1, 2**32 - 2, 2**32 - 3, 2**32, 2**63, 2**64, 10**30, -(2**63)),
    *(0.5, 1e308, float("nan"), float("inf"), True, False),
)


class FuzzFailedError(AssertionError):
    """Something honest was lost, or something ended."""


@dataclass
class Mutator:
    """Draws values that nobody expects."""

    random: random.Random

    def value(self, of: Any, depth: int = 0) -> Any:
        """Something in place of a value, often like it."""
        draw = self.random
        match draw.randrange(9 if depth < 2 else 4):
            case 0:
                return draw.choice(_NUMBERS)
            case 1:
                return draw.choice(_TEXTS)
            case 2:
                return None
            case 3 | 4 if isinstance(of, str):
                return self._text(of)
            case 5:
                return [self.value(of, depth + 1) for _ in range(draw.randrange(3))]
            case 6:
                number = self.value(of, depth + 1)
                return {"set": draw.choice((True, False, None, 7)), "number": number}
            case 7:
                return {draw.choice(_TEXTS[:10]): self.value(of, depth + 1)}
        return "".join(map(chr, (draw.randrange(0xD7FF) for _ in range(draw.randrange(40)))))

    def _text(self, of: str) -> str:
        draw = self.random
        at = draw.randrange(len(of) + 1)
        piece: str = draw.choice((*_TEXTS, *string.printable))
        return of[:at] + piece + of[at + draw.randrange(3) :]

    def record(self, of: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """A record of which some of these fields are otherwise, or missing."""
        found = dict(of)
        for name in self.random.sample(names, self.random.randint(1, min(4, len(names)))):
            if self.random.random() < 0.1:
                found.pop(name, None)
            else:
                found[name] = self.value(found.get(name))
        return found

    def bytes(self, of: Mapping[str, Any]) -> bytes:
        """A record as bytes, now and then with some of them changed."""
        written = json.dumps(of, ensure_ascii=self.random.random() < 0.5)
        data = bytearray(written.encode(errors="surrogatepass"))
        if self.random.random() < 0.2:
            for _ in range(self.random.randint(1, 4)):
                data[self.random.randrange(len(data))] = self.random.randrange(256)
        if self.random.random() < 0.03:
            del data[self.random.randrange(len(data)) :]
        return bytes(data)


@dataclass
class Course:
    """How far a run is, and what it needs."""

    what: str
    records: int = 0
    honest: int = 0
    results: Counter[str] = field(default_factory=Counter)
    began_s: float = field(default_factory=time.perf_counter)
    at_a_tenth_mib: float = 0.0

    def require(self, holds: object, what: str) -> None:
        """Raise FuzzFailedError unless something holds."""
        if not holds:
            raise FuzzFailedError(f"{self.what}, record {self.records}: {what}")

    def lines(self) -> Iterator[str]:
        """Yield what came of it."""
        took_s = time.perf_counter() - self.began_s
        grown_mib = resident_mib() - self.at_a_tenth_mib
        rate = self.records / took_s
        yield f"{self.what}: {self.records} records in {took_s:.0f} s, {rate:.0f}/s"
        yield f"  {self.honest} honest ones among them, none lost; grown by {grown_mib:.1f} MiB"
        yield f"  {dict(self.results)}"
        self.require(grown_mib < _MOST_GROWTH_MIB, f"memory grew by {grown_mib:.1f} MiB")


def resident_mib() -> float:
    """Return the memory of this process, MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def jobcomp_record(number: int) -> dict[str, Any]:
    """An honest record of the plugin."""
    times = {"@submit": 0, "@start": 10, "@end": 3_610}
    iso = {name: time.gmtime(_T_S + s) for name, s in times.items()}
    return {
        **{name: time.strftime("%Y-%m-%dT%H:%M:%S", at) for name, at in iso.items()},
        "jobid": number,
        "array_job_id": 0,
        "array_task_id": None,
        "het_job_id": 0,
        "het_job_offset": None,
        "cluster": "alpha",
        "username": "ada",
        "user_id": 2001,
        "account": "physics",
        "job_name": "lu.C",
        "comment": "app_id=lu.C",
        "elapsed": 3_600,
        "time_limit": 7_200,
        "nodes": "n[1-2]",
        "total_nodes": 2,
        "total_cpus": 72,
        "tres_req": "cpu=72,mem=100G,node=2,billing=72",
        "state": "COMPLETED",
        "tres_alloc": "cpu=72,mem=100G,node=2,billing=72",
        "partition": "p",
        "qos": "normal",
        "failed_node": None,
        "script": "#!/bin/sh\nsrun lu.C\n",
        "work_dir": "/home/ada",
    }


def fuzz_jobcomp(records: int, seed: int) -> Course:
    """Records of the plugin, through the mapping of `ingest-jobcomp`."""
    course, mutate = Course("jobcomp"), Mutator(random.Random(seed))
    intake = Intake(_TOPICS, ahead_us=EventTimeLimit.from_wall_clock().ahead_us)
    mapping = Jobcomp(intake, _SITE, _MAX_BYTES)

    async def go() -> None:
        while course.records < records:
            kept: set[str] = set()
            batch = [_jobcomp_record(course, mutate, kept) for _ in range(_BATCH)]
            course.honest += len(kept)
            _check_ended(course, await mapping.publishes(batch, _NOW_S), kept)
            _note_memory(course, records)

    asyncio.run(go())
    return course


def _jobcomp_record(course: Course, mutate: Mutator, kept: set[str]) -> Record:
    """A record, honest or not; `kept` gets the number of a job whose run may not be lost."""
    course.records += 1
    of, drawn = jobcomp_record(course.records), mutate.random.randrange(_BATCH)
    if drawn < 2 * _HONEST:
        kept.add(str(course.records))
    if drawn < _HONEST:
        data = json.dumps(of).encode()
    elif drawn < 2 * _HONEST:
        data = json.dumps(mutate.record(of, [name for name in _DESCRIPTIVE if name in of])).encode()
    else:
        data = mutate.bytes(mutate.record(of, list(of)))
    return Record(TopicPartition("slurm.jobcomp", 0), course.records, b"", data)


def _check_ended(course: Course, found: Sequence[Publish], kept: set[str]) -> None:
    for publish in found:
        _CODEC.encode(publish)
        payload = publish.event.payload
        course.results[type(payload).__name__] += 1
        if isinstance(payload, DeadLetter):
            course.require(payload.kind != QUARANTINED, payload.stack)
        elif isinstance(payload, JobFinished) and cores_of(payload) * run_us(payload) == _RUN:
            kept.discard(payload.job_id.split("/")[2])
    course.require(not kept, f"jobs {kept} were not published as they ran")


def squeue_job(number: int, *, has_ended: bool) -> dict[str, Any]:
    """An honest job as `squeue --json` shows it."""

    def wrapped(value: int) -> dict[str, Any]:
        return {"set": True, "infinite": False, "number": value}

    runs = {"start_time": wrapped(_T_S + 10), "end_time": wrapped(_T_S + 3_610), "nodes": "n[1-2]"}
    waits = {"start_time": wrapped(0), "end_time": wrapped(0), "nodes": ""}
    tres = "cpu=72,mem=100G,node=2,billing=72"
    return {
        "job_id": number,
        "job_state": ["COMPLETED" if has_ended else "PENDING"],
        "admin_comment": "",
        "array_job_id": wrapped(0),
        "array_task_string": "",
        "array_task_id": {"set": False, "infinite": False, "number": 0},
        "cluster": "alpha",
        "het_job_id": wrapped(0),
        "het_job_offset": wrapped(0),
        "user_name": "ada",
        "user_id": 2001,
        "account": "physics",
        "name": "lu.C",
        "comment": "app_id=lu.C",
        "submit_time": wrapped(_T_S),
        "time_limit": wrapped(120),
        "node_count": wrapped(2),
        "cpus": wrapped(72),
        "tres_req_str": tres,
        "tres_alloc_str": tres if has_ended else "",
        **(runs if has_ended else waits),
    }


class _Ingest:
    """Takes or refuses as ingest does, and keeps what it took of one look."""

    def __init__(self) -> None:
        ahead_us = EventTimeLimit.from_wall_clock().ahead_us
        self._intake = Intake(_TOPICS, ahead_us=ahead_us)
        self.taken: list[Any] = []

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        for at, event in enumerate(events):
            try:
                self.publish(event)
            except UnansweredError as error:
                refused[at] = str(error)
        return refused

    def publish(self, event: Envelope) -> None:
        try:
            sent = Envelope.FromString(event.SerializeToString())
            self.taken.append(self._intake.accept(sent, _NOW_S).event.payload)
        except RejectedError as error:
            problem = str(error)
            why = SimpleNamespace(
                code=lambda: grpc.StatusCode.INVALID_ARGUMENT,
                details=lambda: problem,
                trailing_metadata=tuple,
            )
            raise UnansweredError("ingest", why) from None

    def clusters(self) -> Sequence[str]:
        return ["alpha"]

    def nodes(self, cluster: str) -> ShowNodesResponse:
        return ShowNodesResponse()

    def jobs(self, request: ListJobsRequest) -> Sequence[ListedJob]:
        return ()

    def waiting_jobs(self, cluster: str) -> Sequence[ListedJob]:
        return ()

    def round_us(self) -> int:
        return 0

    def reservations(self, cluster: str) -> Sequence[ListedReservation]:
        return ()

    def licences(self) -> Sequence[ListedLicences]:
        return ()

    def limits(self, site: str) -> Sequence[ListedLimit]:
        return ()

    def explained(self, job_id: str) -> ExplainResponse:
        return ExplainResponse(job_id=job_id)

    def quoted(self, job: JobSubmitted) -> QuoteResponse:
        return QuoteResponse()


class _Released(Slurm):
    """Reads as Slurm is read, and remembers what was released."""

    def __init__(self) -> None:
        super().__init__()
        self.released: set[str] = set()

    def release(self, job: str, release: Release) -> None:
        self.released.add(job)


def fuzz_squeue(records: int, seed: int) -> Course:
    """Jobs of `squeue --json`, through what publishes them and what obeys."""
    course, mutate = Course("squeue"), Mutator(random.Random(seed))
    with _patched() as (ingest, shown):
        telling = SlurmPublisher(ingest, SlurmTerms(_SITE, "alpha"))
        while course.records < records:
            kept: set[int] = set()
            jobs = [_squeue_job(course, mutate, kept) for _ in range(_BATCH)]
            waits = _number_that_waits(jobs, kept)
            course.honest += len(kept)
            shown(_answer(mutate, "jobs", jobs))
            released = _Released()
            ingest.taken.clear()
            try:
                telling.tell(released.jobs())
                _obey(course, released, ingest, waits)
            except SlurmError:
                course.results["answers that are no JSON"] += 1
                continue
            _check_told(course, ingest.taken, kept)
            _note_memory(course, records)
    return course


def _squeue_job(course: Course, mutate: Mutator, kept: set[int]) -> Any:
    """A job, honest or not; `kept` gets the number of one that has to be published."""
    course.records += 1
    of = squeue_job(course.records, has_ended=mutate.random.random() < 0.7)
    drawn = mutate.random.randrange(_BATCH)
    if drawn == _BATCH - 1:
        return mutate.value(of)
    if drawn >= 2 * _HONEST:
        return mutate.record(of, list(of))
    kept.add(course.records)
    described = [name for name in _DESCRIPTIVE if name in of]
    return of if drawn < _HONEST else mutate.record(of, described)


def _number_that_waits(jobs: Sequence[Any], kept: set[int]) -> int:
    """A job that can be released; 0: there is none."""
    for job in jobs:
        is_shown = isinstance(job, dict) and job.get("job_state") == ["PENDING"]
        number = job.get("job_id") if is_shown else None
        if type(number) is int and number in kept:
            return number
    return 0


def _answer(mutate: Mutator, name: str, found: Sequence[Any]) -> str:
    """As the command writes it, and now and then not JSON."""
    data = bytearray(json.dumps({name: found}).encode())
    if mutate.random.random() < 0.02:
        data[mutate.random.randrange(len(data))] = mutate.random.randrange(256)
        try:
            read = json.loads(data.decode(errors="replace"), strict=False)[name]
            if read != found:
                return "{"
        except (ValueError, TypeError, KeyError):
            return data.decode(errors="replace")
    return data.decode(errors="replace")


def _obey(course: Course, released: _Released, ingest: _Ingest, number: int) -> None:
    if not number:
        return
    decision = PlacementDecided(job_id=f"north/alpha/{number}/{_T_S}", verdict=VERDICT_START)
    decision.attempt = decision.grant = 1
    decision.cluster, decision.freq_ghz, decision.walltime_s = "alpha", 2.1, 60
    Obedience(released, ingest, _SITE, JobNotes(released), SlurmLooks(released)).obey(decision)
    course.require(released.released == {str(number)}, f"job {number} was not released")


def _check_told(course: Course, taken: Sequence[Any], kept: set[int]) -> None:
    for payload in taken:
        course.results[type(payload).__name__] += 1
        number = payload.job_id.split("/")[2]
        if number.isdecimal():
            kept.discard(int(number))
        assert isinstance(payload, _PUBLISHED)
    course.require(not kept, f"jobs {kept} were not published")


def fuzz_sinfo(records: int, seed: int) -> Course:
    """Nodes of `sinfo --json`, through the declaration and the drains."""
    course, mutate = Course("sinfo"), Mutator(random.Random(seed))
    hardware = NodeHardware("gold-6254", [1.2, 3.1], 110.0, 140.0)
    with _patched() as (ingest, shown):
        while course.records < records:
            found, kept = list[Any](), set[str]()
            for number in range(_BATCH):
                course.records += 1
                of = {
                    "name": f"n{number}",
                    "cpus": 36,
                    "real_memory": 196_608,
                    "tres": "cpu=36,mem=192G,billing=36,gres/gpu=2",
                    "state": ["IDLE", "DRAIN"],
                    "reason": "a fan is broken",
                    "state_flags": [],
                }
                drawn = mutate.random.randrange(_BATCH)
                if drawn < 2 * _HONEST:
                    kept.add(f"n{number}")
                    described = ["reason", "tres", "real_memory", "state_flags"]
                    of = of if drawn < _HONEST else mutate.record(of, described)
                    found.append(of)
                else:
                    found.append(mutate.record(of, list(of)))
            course.honest += len(kept)
            shown(_answer(mutate, "nodes", found))
            ingest.taken.clear()
            try:
                _tell_of_nodes(course, ingest, hardware)
            except SlurmError:
                course.results["answers that are no JSON"] += 1
                continue
            drained = {
                name for each in ingest.taken for host in each.nodes for name in expand(host)
            }
            course.require(kept <= drained, f"nodes {kept - drained} were not drained")
            course.results["drained"] += len(drained)
            _note_memory(course, records)
    return course


def _tell_of_nodes(course: Course, ingest: _Ingest, hardware: NodeHardware) -> None:
    found = Slurm().nodes()
    DrainPublisher(ingest, "north", "alpha").tell(found)
    uncounted_resources(found)
    alike = [node for node in found if node.get("cpus") == 36]
    try:
        declared = declared_cluster(alike, "alpha", "north", "alpha", hardware)
        check_contents(declared)
        course.results["declared"] += 1
    except UnlikeNodesError:
        course.results["no node"] += 1


class _patched:  # noqa: N801 it is used as a function
    """Slurm's commands and ingest, in this process. A context manager."""

    def __enter__(self) -> tuple[_Ingest, Callable[[str], None]]:
        said = [""]
        ingest, self._stack = _Ingest(), ExitStack()
        for module, name, new in (
            (Slurm, "_said", lambda _slurm, *_command: said[0]),
            *(
                (module, "now_us", lambda: round(_NOW_S * 1e6))
                for module in (publisher, obedience, drains)
            ),
        ):
            self._stack.enter_context(patch.object(module, name, new))
        return ingest, lambda text: said.__setitem__(0, text)

    def __exit__(self, *_error: object) -> None:
        self._stack.close()


def _note_memory(course: Course, records: int) -> None:
    if not course.at_a_tenth_mib and course.records >= records // 10:
        course.at_a_tenth_mib = resident_mib()


def main() -> None:
    """Fuzz, report, and exit with status 1 where something was lost or ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="of each sort")
    parser.add_argument("--seed", type=int, default=1)
    found = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for fuzz in (fuzz_jobcomp, fuzz_squeue, fuzz_sinfo):
        try:
            print(*fuzz(found.records, found.seed).lines(), sep="\n", flush=True)
        except FuzzFailedError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
