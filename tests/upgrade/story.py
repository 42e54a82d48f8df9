"""Processes of an earlier release end in the middle of a run, and this release's begin.

Stages whose state it cannot read say so and wait. Then the operator follows the advice: he lets
them make their state anew from what they have read. Stages that are replayed publish what they
measured once more, so that a later start may find another P-state than without an upgrade.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from cli.kafka_topics import CHARGES
from cli.processes import Processes
from cli.restore.restore import replay, stage_named
from deploy.local.program import Program
from deploy.local.readiness import waits_for
from deploy.local.servers import LocalServers
from lab.demo.accounts import fold_charges, in_redis, require_equal
from lab.demo.embedded import run as run_embedded
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.run import PATIENCE_S
from lab.demo.servers import RunningSystem, new_namespace, serving
from shared.domain.job import JobAttempt
from tests.distributions.environments import Environment

# The upgrade comes when one of so many jobs has finished.
_SHARE: Final = 3
# A process is ready within, or says what it waits for.
_SAYS_WITHIN_S: Final = 60.0
_REFUSED: Final = re.compile(r"([a-z_.]+)/\d+(?=,| is refused)")


class UpgradeError(RuntimeError):
    """What this release made of the earlier one's run is wrong."""


def upgrade(options: DemoOptions, earlier: Environment, run_dir: Path, console: Console) -> None:
    """Play a run with an upgrade in its middle, and report what came of it.

    Raises UpgradeError where a job or a charge is lost, StalledRunError, or WrongAccountsError.
    """
    alone = History.read(run_embedded(options, lambda _: None).topic)
    with LocalServers(run_dir) as servers:
        shared = options.shared(new_namespace("upgrade"))
        environment = options.environment(shared.namespace)
        processes = Processes(servers.run_dir, environment, traced=False)
        services = processes.services()
        old = [_of(earlier, program) for program in (*services, processes.emulator())]
        with serving(shared, old, servers) as system:
            upgraded = _Upgrade(system, services, options.jobs // _SHARE, console)
            system.topics.follow(upgraded, PATIENCE_S)
            after, before = History.read(system.topics.topic), upgraded.before
            if before is None:
                raise UpgradeError(f"the run was over after {upgraded.finished} jobs: play more")
            _require_whole(before, after, alone)
            ends = system.topics.ends(CHARGES)
            require_equal(
                in_redis(system.deployment, ends, PATIENCE_S), fold_charges(after.charges)
            )
    console.print(
        f"{len(before.starts())} starts and {len(before.charges)} charges of before are kept, all "
        f"{len(_finished(after))} jobs finished and are charged; "
        f"{_differing(_starts(after), _starts(alone))} start otherwise than without an upgrade, "
        f"{_differing(_prices(after), _prices(alone))} cost otherwise"
    )


def _differing(here: Mapping[JobAttempt, object], there: Mapping[JobAttempt, object]) -> int:
    return sum(here.get(attempt) != was for attempt, was in there.items())


def _of(earlier: Environment, program: Program) -> Program:
    """A program of the earlier release, which is not to find this checkout."""
    argv = [str(earlier.python), "-P", *program.argv[1:]]
    return replace(program, argv=argv, env={**program.env, "PYTHONPATH": ""})


@dataclass
class _Upgrade:
    """Notified of finished jobs, it upgrades when so many have."""

    system: RunningSystem
    services: Sequence[Program]
    after_jobs: int
    console: Console
    finished: int = 0
    before: History | None = None

    def __call__(self, finished: int) -> None:
        self.finished += finished
        if self.finished >= self.after_jobs and self.before is None:
            self.system.servers.remove(self.services)
            self.before = History.read(self.system.topics.topic)
            self._upgrade()

    def _upgrade(self) -> None:
        self.console.print(f"{self.finished} jobs have finished: every service is replaced")
        replayed: set[str] = set()
        # A process says what is refused as it finds it, so there may be more the next time.
        while words := "; ".join(filter(None, self._restart().values())):
            refused = {*_REFUSED.findall(words)} - replayed
            if not refused:
                raise UpgradeError(f"not ready: {words}")
            self.console.print(words, highlight=False)
            self._replay(sorted(refused))
            replayed |= refused

    def _replay(self, refused: Sequence[str]) -> None:
        """Do as the refused stages say."""
        self.system.servers.remove(self.services)
        deployment = self.system.deployment
        time.sleep(deployment.settings.session_timeout_s)
        for name in refused:
            for line in replay(deployment, stage_named(deployment, name)):
                self.console.print(line, highlight=False)

    def _restart(self) -> Mapping[str, str]:
        """End all services and start this release's; return what each waits for, empty for one that
        is ready."""
        servers = self.system.servers
        servers.remove(self.services)
        servers.start([replace(program, ready_url=None) for program in self.services])
        return {program.name: _waits_for(program) for program in self.services}


def _waits_for(program: Program) -> str:
    assert program.ready_url is not None
    deadline_s = time.monotonic() + _SAYS_WITHIN_S
    while words := waits_for(program.ready_url):
        if _REFUSED.search(words) or time.monotonic() > deadline_s:
            return words
        time.sleep(0.1)
    return ""


def _require_whole(before: History, after: History, alone: History) -> None:
    """Raise UpgradeError where a job that the earlier release started or charged has another start
    or price now, or where not every job of a run without an upgrade finished and is charged."""
    _require_kept("start", _starts(before), _starts(after))
    _require_kept("price", _prices(before), _prices(after))
    for what, of in (("finished", _finished), ("is charged", _charged)):
        if wrong := of(after) ^ of(alone):
            raise UpgradeError(f"{min(wrong)} {what} in one of the two runs alone")


def _require_kept(
    what: str, before: Mapping[JobAttempt, object], after: Mapping[JobAttempt, object]
) -> None:
    for attempt, was in before.items():
        if after.get(attempt) != was:
            raise UpgradeError(f"the {what} of {attempt} was {was}, and is {after.get(attempt)}")


def _starts(history: History) -> Mapping[JobAttempt, object]:
    """When, where and how each attempt of a job started."""
    return {
        attempt: (each.decided_at_us, each.cluster, tuple(each.node_indices), each.freq_ghz)
        for attempt, each in history.starts().items()
    }


def _prices(history: History) -> Mapping[JobAttempt, object]:
    """The price of each attempt by its last revision."""
    ordered = sorted(history.charges, key=lambda charge: charge.revision)
    return {(charge.job_id, charge.attempt): charge.price_su for charge in ordered}


def _finished(history: History) -> set[str]:
    return {job.job_id for job in history.finished}


def _charged(history: History) -> set[str]:
    return {charge.job_id for charge in history.charges}
