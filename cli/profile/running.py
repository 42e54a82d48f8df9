"""Runs one program, pinned, alone or beside another that is restarted until it ends."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from resource import struct_rusage
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cli.profile.campaign import ALONE, Campaign, ProfiledRun, split_command
from cli.profile.counters import Counter, features, parse_counts, perf_command
from coplace_client.errors import UnusableError

_TAIL: Final = 300


class TimedRun(NamedTuple):
    """What a run took and, of one alone, what was counted; `restarts` of who ran beside it."""

    run: ProfiledRun
    run_s: float
    restarts: int
    features: Mapping[str, float]


class ProgramFailedError(UnusableError):
    """A program of a campaign did not do what it should."""


class Bench:
    """The machine that a campaign runs on."""

    def __init__(
        self, campaign: Campaign, counters: Sequence[Counter], events: Sequence[str]
    ) -> None:
        self._campaign = campaign
        self._counters = counters
        self._events = events

    def measured(self, run: ProfiledRun) -> TimedRun:
        """Measure one run. Raises ProgramFailedError naming the program."""
        place = self._campaign.placements[run.config]
        with TemporaryDirectory(prefix="coplace-profile-") as folder:
            stat = Path(folder, "stat")
            is_counted = run.beside == ALONE and bool(self._events)
            before = perf_command(self._events, stat) if is_counted else []
            program = [*before, *self._words(run.primary, place.primary)]
            if run.beside == ALONE:
                restarts, (run_s, usage) = 0, self._ended(run.primary, program, folder)
            else:
                other = _Restarted(run.beside, self._words(run.beside, place.beside), folder)
                with other:
                    run_s, usage = self._ended(run.primary, program, folder)
                restarts = other.restarts
            found = parse_counts(stat.read_text()) if is_counted else {}
        counted = features(self._counters, run_s, usage, found) if run.beside == ALONE else {}
        return TimedRun(run, run_s, restarts, counted)

    def _words(self, name: str, cores: Sequence[int]) -> list[str]:
        pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
        return [*pinned, *split_command(self._campaign.commands[name], cores)]

    def _ended(self, name: str, program: Sequence[str], folder: str) -> tuple[float, struct_rusage]:
        began_s = time.monotonic()
        process = _started(name, program, folder)
        timer = threading.Timer(self._campaign.most_s, _kill, [process])
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            run_s = time.monotonic() - began_s
        except BaseException:
            _kill(process)
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGKILL and run_s >= self._campaign.most_s:
            raise ProgramFailedError(f"{name} ran for {run_s:.0f} s: give it less, or raise most_s")
        _require_success(name, process, folder)
        return run_s, usage


class _Restarted:
    """A program that runs again and again for as long as the context is open."""

    def __init__(self, name: str, program: Sequence[str], folder: str) -> None:
        self.restarts = -1
        self._name, self._program, self._folder = name, program, folder
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: ProgramFailedError | None = None
        self._thread = threading.Thread(target=self._run)
        self._first = threading.Event()

    def __enter__(self) -> None:
        self._thread.start()
        self._first.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stop.set()
            if self._process is not None:
                _kill(self._process)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while self._start():
                assert self._process is not None
                self._process.wait()
                if not self._stop.is_set():
                    _require_success(self._name, self._process, self._folder)
        except ProgramFailedError as error:
            self._failure = error
        finally:
            self._first.set()

    def _start(self) -> bool:
        with self._lock:
            if self._stop.is_set():
                return False
            self._process = _started(self._name, self._program, self._folder)
            self.restarts += 1
            self._first.set()
            return True


def _started(name: str, program: Sequence[str], folder: str) -> subprocess.Popen[bytes]:
    """In a session of its own, so that all of it can be ended."""
    with _errors(name, folder).open("wb") as errors:
        try:
            return subprocess.Popen(
                program,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            problem = f"{name} cannot be started: {error.filename}: {error.strerror}"
            raise ProgramFailedError(problem) from error


def _require_success(name: str, process: subprocess.Popen[bytes], folder: str) -> None:
    if process.returncode:
        said = _errors(name, folder).read_text(errors="replace").strip()[-_TAIL:]
        raise ProgramFailedError(f"{name} ended with {process.returncode}: {said or 'no message'}")


def _errors(name: str, folder: str) -> Path:
    return Path(folder, f"{name.replace('/', '_')[:100]}.stderr")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
