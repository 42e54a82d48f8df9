"""Plays lines on a Slurm at their seconds, does to the jobs what their users do, and watches."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.slurm.lines import Line
from tests.slurm.watcher import Eligible, ShownJob, Watcher, rooms, shown_jobs
from tests.support.slurm import LocalSlurm

_LOOKS_EVERY_S: Final = 0.4
# Jobs of whole seconds would end at one place within the seconds in which slurmctld looks at what
# waits: whoever is later than that by a moment would lose a second each time.
_GOLDEN: Final = 0.618034
# So long a job runs before its user does something to it.
_RUNS_S: Final = 2.0
_TRIES: Final = 20
_SCRIPT: Final = """\
echo "{place} ${{SLURM_JOB_ID:-0}} $(date +%s.%N) ${{SLURM_ARRAY_TASK_ID:-0}}" >>{journal}
sleep {lasts_s}; exit {exit_code}"""
Release = Callable[[int], object]


class Play:
    """Lines on one Slurm. `release` lets in what its user held, by Slurm's number."""

    def __init__(self, slurm: LocalSlurm, lines: Sequence[Line], release: Release) -> None:
        self._slurm, self.lines, self._release = slurm, lines, release
        self.watcher = Watcher(lines)
        self.numbers: dict[int, int] = {}
        self.places: dict[int, int] = {}
        self.refused: dict[int, str] = {}
        self.jobs: list[ShownJob] = []
        self.released_s: dict[int, float] = {}
        self.submitted_s: dict[int, float] = {}
        self._done: set[tuple[int | str, ...]] = set()
        self._asked: set[int] = set()
        self._beside = ThreadPoolExecutor(1)
        self._by_hand: list[subprocess.Popen[bytes]] = []
        self.looks = 0

    def run(self, begin_s: float, within_s: float) -> None:
        """Play them from a time of the monotonic clock on, until all are over."""
        waiting = list(enumerate(self.lines))
        deadline_s = begin_s + within_s
        while time.monotonic() < deadline_s:
            while waiting and begin_s + waiting[0][1].at_s <= time.monotonic():
                self._submit(*waiting.pop(0))
            self.look()
            self._do()
            if not waiting and self.jobs and all(job.is_over for job in self.jobs):
                break
            time.sleep(_LOOKS_EVERY_S)
        self._beside.shutdown()
        for each in self._by_hand:
            each.kill()
            each.wait()

    def look(self) -> None:
        """Take down what is shown now, unless Slurm does not answer."""
        found = shown_jobs(self._slurm)
        if not found:
            return
        self.looks += 1
        self.jobs = found
        self._name_by_journal()
        free = rooms(self._slurm)
        self.watcher.note(found, free, self.places, self.eligible())

    def eligible(self) -> Eligible:
        """When each of them could start, by what is known now."""
        return Eligible(self.lines, self.places, self.jobs, self.released_s)

    def journal(self) -> list[tuple[int, int, int, float]]:
        """Return what the jobs wrote themselves as they began: the place, the number, the task, and
        the time, in seconds since 1970."""
        file = self._slurm.folder / "journal"
        rows = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(int(row[0]), int(row[1]), int(row[3]), float(row[2])) for row in rows]

    def _submit(self, place: int, line: Line) -> None:
        journal = self._slurm.inside / "journal"
        script = _SCRIPT.format(
            place=place,
            journal=journal,
            lasts_s=f"{line.lasts_s + place * _GOLDEN % 1:.3f}",
            exit_code=line.exit_code,
        )
        options = line.options(self.numbers)
        self.submitted_s[place] = time.time()
        if line.command != "sbatch":
            self._by_hand.append(
                subprocess.Popen(
                    [line.command, "--quiet", *options, "sh", "-c", script],
                    env=self._slurm.environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            return
        output = f"--output={os.devnull}"
        if line.beside:
            options += [":", output, f"--partition={line.beside}", "--ntasks=1", "--time=2"]
        try:
            said = self._slurm.say(
                "sbatch", "--parsable", output, *options, f"--wrap=#!/bin/sh\n{script}"
            )
        except AssertionError as error:
            self.refused[place] = str(error).strip()
            return
        self._name(place, int(said.split(";")[0]))

    def _name(self, place: int, number: int) -> None:
        self.numbers[place], self.places[number] = number, place

    def _name_by_journal(self) -> None:
        """Those that are submitted by hand say their number when they run."""
        if self._by_hand:
            for place, number, _, _ in self.journal():
                if place not in self.numbers:
                    self._name(place, number)

    def _do(self) -> None:
        """What users do to their jobs."""
        states = {job.number: job for job in self.jobs if job.state in ("RUNNING", "SUSPENDED")}
        for place, number in self.numbers.items():
            line, job = self.lines[place], states.get(number)
            age_s = time.time() - self.submitted_s[place]
            if line.cancel_s and age_s >= line.cancel_s:
                self._once(place, "scancel", str(number))
            if line.release_s and age_s >= line.release_s and place not in self._asked:
                self._asked.add(place)
                self._beside.submit(self._let_in, place, number)
            if job is None or time.time() < job.start_s + _RUNS_S:
                continue
            if line.suspends:
                self._once(place, "scontrol", "suspend", str(number))
            if job.state == "SUSPENDED" and time.time() >= job.start_s + 2 * _RUNS_S:
                self._once(place, "scontrol", "resume", str(number))
            if line.requeues:
                self._once(place, "scontrol", "update", f"JobId={number}", "Requeue=1")
                self._once(place, "scontrol", "requeue", str(number))

    def _let_in(self, place: int, number: int) -> None:
        """Again, where it is not known yet. What is submitted meanwhile does not wait for it."""
        for _ in range(_TRIES):
            try:
                self._release(number)
            except AssertionError:
                time.sleep(1.0)
            else:
                self.released_s[place] = time.time()
                return

    def _once(self, place: int, *command: str) -> None:
        """What fails, as the job is over meanwhile, is not tried again."""
        if (place, *command[:2]) not in self._done:
            self._done.add((place, *command[:2]))
            subprocess.run(
                command, env=self._slurm.environment, capture_output=True, check=False, timeout=60
            )


def run_all(plays: Sequence[Play], within_s: float, meanwhile: Callable[[], object] = int) -> None:
    """Run plays at once; `meanwhile` is done again and again until the last has ended."""
    begin_s = time.monotonic() + 1.0
    threads = [threading.Thread(target=play.run, args=(begin_s, within_s)) for play in plays]
    for each in threads:
        each.start()
    while threads[-1].is_alive():
        meanwhile()
        threads[-1].join(1.0)
    for each in threads:
        each.join()
