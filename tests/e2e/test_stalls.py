"""No part is hollow: what a stopped process produces does not come from anywhere else."""

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from redis import Redis

from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from lab.demo.run import PATIENCE_S, write_files
from lab.demo.servers import RunningSystem, playing

# What only this process can bring forth; the accounts are no topic. The last two are those without
# which a run goes on to its end.
PRODUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "simulation": ("jobs.events", "placement.decisions"),
    "ingest": ("jobs.events", "telemetry.signatures", "telemetry.nodes", "telemetry.shutters"),
    "energy": ("energy.signatures", "energy.coefficients", "placement.decisions"),
    "prediction": ("prediction.models", "placement.decisions"),
    "placement": ("placement.inputs", "placement.decisions"),
    "pricing": ("prices.charges",),
    "accounts": (),
}
# A round takes far less; what was on its way to the broker when a process stopped may take more.
_STILL_S: Final = 1.5
_STILL_WITHIN_S: Final = 15.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Stall:
    """Whether a stopped process's products stopped, and came forth again when it went on."""

    stood_still: bool
    went_on: bool


class Stalls:
    """Notified of finished jobs, it stops one process after the other for less than its session."""

    def __init__(self, system: RunningSystem, every_jobs: int) -> None:
        self._system = system
        self._every_jobs = every_jobs
        self._waiting = list(PRODUCTS)
        self._finished = 0
        self.seen: dict[str, Stall] = {}

    def __call__(self, finished: int) -> None:
        """So many more jobs have finished."""
        self._finished += finished
        if self._waiting and self._finished >= self._every_jobs * (len(self.seen) + 1):
            name = self._waiting.pop(0)
            self.seen[name] = self._stall(name)

    def _stall(self, name: str) -> Stall:
        servers = self._system.servers
        servers.kill(name, signal.SIGSTOP)
        try:
            stood_still = _within(_STILL_WITHIN_S, lambda: self._stands_still(name))
            last = self._products(name)
        finally:
            servers.kill(name, signal.SIGCONT)
        return Stall(stood_still, _within(PATIENCE_S, lambda: self._products(name) != last))

    def _stands_still(self, name: str) -> bool:
        before = self._products(name)
        time.sleep(_STILL_S)
        return self._products(name) == before

    def _products(self, name: str) -> object:
        if name == "accounts":
            return _redis_contents(self._system)
        return {topic: self._system.topics.ends(topic) for topic in PRODUCTS[name]}


def _within(patience_s: float, condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(_POLL_S)
    return False


def _redis_contents(system: RunningSystem) -> object:
    with Redis.from_url(system.servers.redis_url, decode_responses=True) as redis:
        name = system.deployment.name
        positions = sorted(redis.scan_iter(name("position:prices.charges:*")))
        return redis.hgetall(name("accounts:spent")), redis.mget(positions) if positions else []


@pytest.mark.thorough
def test_a_stopped_process_stalls_what_it_produces_and_nothing_else_comes_of_it(
    undisturbed: DemoOptions,
    servers: LocalServers,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_SESSION_TIMEOUT_S", "30")
    with playing(replace(undisturbed, out=out), servers) as system:
        stalls = Stalls(system, undisturbed.jobs // (len(PRODUCTS) + 1))
        system.topics.follow(stalls, PATIENCE_S)
        write_files(system.topics, out)
    assert stalls.seen == dict.fromkeys(PRODUCTS, Stall(stood_still=True, went_on=True))
    assert first_difference(undisturbed.out, out) is None
