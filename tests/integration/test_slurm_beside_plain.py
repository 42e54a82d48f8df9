"""Jobs of many kinds on Debian's Slurm with Coplace: the small form of `make e2e-slurm`, and thirty
ordinary lines beside a Slurm that has no Coplace."""

import time
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from tests.slurm.lines import drawn, ordinary
from tests.slurm.play import Play, run_all
from tests.slurm.site import CLUSTERS, held_slurm, plain_slurm, reserve
from tests.slurm.verdict import MOST_WASTED_S, Outcome
from tests.support.slurm import require_installed
from tests.support.slurm_region import Region, connected

JOBS: Final = 60
_OVER_S: Final = 15.0
_WITHIN_S: Final = 240.0
_THIRTY_WITHIN_S: Final = 120.0


@pytest.fixture
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    slurm = held_slurm(tmp_path_factory.mktemp("beside-plain"))
    with connected(servers, slurm, f"{slurm.folder.name}-", CLUSTERS) as found:
        found.until(found.is_ready, "the clusters")
        reserve(slurm)
        found.until(lambda: "kept" in found.ask("reservation", "list"), "the reservation")
        yield found


@pytest.mark.parametrize("seed", [1])
def test_jobs_of_many_kinds_run_once_where_they_may_and_leave_no_node_idle(
    region: Region, seed: int
) -> None:
    lines = drawn(Random(seed), JOBS, _OVER_S, 2, is_full=False)
    play = Play(region.slurm, lines, region.release)
    play.run(time.monotonic(), _WITHIN_S)
    outcome = Outcome(play)
    assert list(outcome.wrong()) == []
    assert len(outcome.began) >= sum(not line.cancel_s for line in lines)
    assert play.watcher.longest_wasted_s <= MOST_WASTED_S, outcome.summary()


def test_of_thirty_ordinary_lines_as_many_start_as_under_plain_slurm(
    region: Region, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with plain_slurm(tmp_path_factory.mktemp("plain")) as plain:
        reserve(plain)
        plays = (
            Play(plain, ordinary(), plain.release),
            Play(region.slurm, ordinary(), region.release),
        )
        run_all(plays, _THIRTY_WITHIN_S)
    alone, beside = map(Outcome, plays)
    assert list(beside.wrong()) == []
    assert len(alone.lines) == len(beside.began) == 30
    assert beside.began >= alone.began
