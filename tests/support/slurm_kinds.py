"""Jobs of every kind that Slurm's accounts distinguish, drawn by a seed, on four nodes of eight
cores."""

import os
import subprocess
import time
from collections.abc import Callable
from random import Random
from typing import Final

from tests.support.slurm_accounting import AccountingSlurm

_ODD: Final = (
    *("two\nlines", "tab\tx", "c\x01x", "na\udcefve", "a\udcffb\udcc3", "gr öße", "\U0001f600"),
    *('it\'s \\ "q" |x', "y" * 257, "ü" * 200, "\u200b", "None", "(null)", "%j;$(id)", "`?`", " "),
)
_WITHIN_S: Final = 300.0
_SHRINK: Final = "scontrol update jobid=$SLURM_JOB_ID NumNodes={nodes}; sleep {sleep_s}"
_PENDING: Final = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")


class EveryKind:
    """Submits jobs, and does to them what users and operators do."""

    def __init__(self, slurm: AccountingSlurm, rng: Random) -> None:
        self._slurm, self._rng = slurm, rng
        self.submitted = 0

    def run(self, ordinary: int) -> None:
        """Submit so many ordinary jobs, and one or more of every other kind; return when all are
        over."""
        ended = [self._job("-n1", "-t1", script="exit 3"), self._job("-n2", "-t1")]
        long = {name: self._job("-n1", "-t9", script="sleep 300") for name in ("cancel", "stopped")}
        requeued = self._job("-n1", "-t9", script="sleep 11")
        paused = self._job("-n2", "-t9", script="sleep 12")
        both = self._job("-n1", "-t9", script="sleep 12")
        fails = self._job("-N2", "-n2", "-t9", "--no-requeue", "-wn3,n4", script="sleep 300")
        # Begins again, since its node failed.
        lost = [self._job(f"-N{nodes}", "-t9", "-wn4", script="sleep 20") for nodes in (1, 2)]
        for nodes in (2, 3):
            steps = [_SHRINK.format(nodes=n, sleep_s=2) for n in range(nodes - 1, 0, -1)]
            self._job(f"-N{nodes}", f"-n{nodes}", "-t9", script="; ".join(["sleep 2", *steps]))
        waits = [self._job("-n1", "--begin=now+1hour"), self._job("-n1", "--hold")]
        waits += [self._job("-n1", "--begin=now+1hour", "--array=1-4")]
        self._job("-n1", "--kill-on-invalid-dep=yes", f"--dependency=afterok:{ended[0]}")
        self._job("-n1", "-t2", "--array=1-3")
        self._job("-n1", "-t2", ":", "-n2")
        for name in _ODD:
            self._job("-n1", "-t2", f"--job-name={name}")
        for _ in range(ordinary):
            self._ordinary()
        self._until_running(paused, both, requeued, fails, *lost, *long.values())
        self._say("scontrol", "suspend", f"{paused},{both},{long['stopped']}")
        time.sleep(2)
        for job in (*waits[:2], f"{waits[2]}_2", waits[2], long["cancel"], long["stopped"]):
            self._say("scancel", str(job))
        self._say("scontrol", "resume", f"{paused},{both}")
        self._say("scontrol", "requeue", f"{requeued},{both},{','.join(map(str, ended))}")
        time.sleep(1)
        self._say("scontrol", "suspend", str(paused))
        time.sleep(2)
        self._say("scontrol", "resume", str(paused))
        self._say("scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=test")
        time.sleep(1)
        self._try("scontrol", "update", "NodeName=n4", "State=RESUME")  # unless it is back itself
        self._until_over()

    def _ordinary(self) -> None:
        rng = self._rng
        nodes, time_s = rng.randint(1, 3), rng.randint(0, 3)
        more = rng.choice(
            (["--exclusive"], ["--licenses=matlab:2"], ["--mem=900"], ["-t", "UNLIMITED"], [], [])
        )
        comment = rng.choice((["--comment=app_id=lu.C"], [], []))
        self._job(
            f"-N{nodes}",
            f"-n{nodes * rng.randint(1, 3)}",
            *more,
            *comment,
            script=f"sleep {time_s}",
        )

    def _job(self, *options: str, script: str = "sleep 1") -> int:
        self.submitted += 1
        parts = [f"--output={os.devnull}", *options]
        if ":" in parts:  # a script is of the whole, and each part has options of its own
            parts.insert(parts.index(":") + 1, f"--output={os.devnull}")
        found = self._say("sbatch", "--parsable", *parts, f"--wrap={script}")
        return int(found)

    def _say(self, *command: str) -> str:
        return self._slurm.say(*command)

    def _shown(self, *options: str) -> list[str]:
        return self._say("squeue", "--noheader", *options).splitlines()

    def _until_running(self, *jobs: int) -> None:
        wanted = ",".join(map(str, jobs))
        self._until(
            lambda: (
                len(self._shown("--format=%i", f"--jobs={wanted}", "--states=RUNNING")) == len(jobs)
            ),
            "jobs that run",
        )

    def _until_over(self) -> None:
        """Until none waits or runs, those that were requeued included: they start at once."""

        def is_over() -> bool:
            for line in self._shown("--format=%i", f"--states={','.join(_PENDING)}"):
                # Slurm lets what was requeued wait for two minutes, and holds what it could not
                # launch (the node failed between the grant and the launch).
                self._try("scontrol", "update", f"JobId={line}", "StartTime=now")
                self._try("scontrol", "release", line)
            return not self._shown("--format=%i", f"--states={','.join(_PENDING)}")

        self._until(is_over, "the end of all jobs")

    def _try(self, *command: str) -> None:
        subprocess.run(command, env=self._slurm.environment, capture_output=True, check=False)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _WITHIN_S
        while not holds():
            assert time.monotonic() < deadline_s, (
                f"no {what}: {self._shown('--format=%i %T %r', '--states=all')}"
            )
            time.sleep(0.5)
