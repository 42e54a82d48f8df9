"""The jobs of a node: a file for each, which resource managers write and remove."""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from coplace_agent.adapters.counters import NoCounterError
from coplace_agent.adapters.processes import (
    ControlGroup,
    JobProcesses,
    NotAJobError,
    ProcessTree,
    require_separate,
)
from coplace_agent.adapters.progress import Counters, Heartbeats, ProgressCounter
from coplace_agent.fields import Checked, Limits
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.files import write_whole

log = logging.getLogger(__name__)

_SUFFIX: Final = ".json"
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class JobFile(Checked):
    """A job as its resource manager attaches it: by its first process, with the start of that where
    it is known so that no other is meant, or by its control group. Raises RejectedError."""

    job_id: Annotated[str, Limits(least=1, most=256)] = ""
    attempt: Annotated[int, Limits(least=1)] = 1
    app_id: Annotated[str, Limits(most=256)] = ""
    pid: Annotated[int | None, Limits(least=2)] = None
    started_ticks: Annotated[int, Limits(least=0)] = 0
    cgroup: Path | None = None
    heartbeats: Path | None = None
    cores: Annotated[int, Limits(least=0)] = 0

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if (self.pid is None) == (self.cgroup is None):
            raise RejectedError("job", "name either a process or a control group")

    @property
    def key(self) -> str:
        """Return the job's name among the jobs of the node."""
        return f"{self.job_id}/{self.attempt}"


class AttachedJob:
    """The execution manager of a job: its processes, and its progress where some can be read."""

    def __init__(self, file: JobFile, processes: JobProcesses) -> None:
        self.file = file
        self.processes = processes
        self.progress: ProgressCounter | None = None
        self._problem = ""

    def follow(self) -> None:
        """Read the progress of the processes that it has now. Without any a job is paused as others
        are, but never measured: until its application makes the file that it counts in."""
        try:
            if self.progress is None:
                self.progress = _progress(self.file)
            self.progress.follow(self.processes.pids())
        except NoCounterError as error:
            if self._problem != str(error):
                self._problem = str(error)
                log.warning(
                    "job is not measured", extra={"job": self.file.key, "problem": self._problem}
                )
            self.close()

    def close(self) -> None:
        """Let go of its counters."""
        if self.progress is not None:
            self.progress.close()
            self.progress = None


class JobFolder:
    """The folder of job files, which outlive the agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def attach(self, job: JobFile) -> None:
        """Write the job's file, or replace it. Raises OSError."""
        with write_whole(self._path(job.key)) as fresh:
            fresh.write_text(json.dumps(job.as_json()), encoding="utf-8")

    def detach(self, key: str) -> bool:
        """Remove the job's file; return False where there is none. Raises OSError."""
        path = self._path(key)
        is_there = path.exists()
        path.unlink(missing_ok=True)
        return is_there

    def jobs(self) -> Iterator[JobFile]:
        """Yield the jobs whose files can be used; of others the log has the reason."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                yield _read(path)
            except FileNotFoundError:
                continue
            except (OSError, UnusableError) as error:
                problem = " ".join(str(error).split())[:500]
                log.warning(
                    "job file cannot be used", extra={"path": str(path), "problem": problem}
                )

    def _path(self, key: str) -> Path:
        """Ids of jobs have slashes, and are longer than a file's name may be."""
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"


def _read(path: Path) -> JobFile:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UnusableError(f"has over {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"is not JSON: {error}") from None
    return JobFile.of_json(found)


class AttachedJobs:
    """The jobs that run on the node, as the folder has them."""

    def __init__(self, folder: JobFolder, own_pids: frozenset[int]) -> None:
        self._folder = folder
        self._own_pids = own_pids
        self._jobs: dict[str, AttachedJob] = {}
        self._refused: set[JobFile] = set()

    def look(self) -> None:
        """Attach what is new, let go of what was removed, and of what is over with its file."""
        found = {file.key: file for file in self._folder.jobs()}
        for key in [key for key, job in self._jobs.items() if found.get(key) != job.file]:
            self._jobs.pop(key).close()
        self._refused &= set(found.values())
        for key in [key for key, job in self._jobs.items() if job.processes.is_over]:
            self._jobs.pop(key).close()
            self._folder.detach(found.pop(key).key)
            log.info("job is over", extra={"job": key})
        for file in found.values():
            if file.key not in self._jobs and file not in self._refused:
                self._attach(file)
        for job in self._jobs.values():
            job.follow()

    def running(self) -> dict[str, AttachedJob]:
        """Return the jobs that nobody else has stopped, by key in its order."""
        return {key: job for key, job in sorted(self._jobs.items()) if job.processes.targets()}

    def close(self) -> None:
        """Let go of all, whose files stay."""
        for job in self._jobs.values():
            job.close()

    def _attach(self, file: JobFile) -> None:
        try:
            processes = _processes(file)
            taken = {pid for job in self._jobs.values() for pid in job.processes.pids()}
            require_separate(processes, self._own_pids, "the agent")
            require_separate(processes, taken, "another job")
        except NotAJobError as error:
            log.warning("job cannot be attached", extra={"job": file.key, "problem": str(error)})
            self._refused.add(file)
            return
        self._jobs[file.key] = AttachedJob(file, processes)
        log.info("job is attached", extra={"job": file.key})


def _processes(file: JobFile) -> JobProcesses:
    if file.cgroup is not None:
        return ControlGroup(file.cgroup)
    if file.pid is None:
        raise NotAJobError("neither a process nor a control group is named")
    return ProcessTree(file.pid, file.started_ticks)


def _progress(file: JobFile) -> ProgressCounter:
    return Heartbeats(file.heartbeats) if file.heartbeats else Counters()
