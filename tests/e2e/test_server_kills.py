"""`kill -9` of Kafka in the middle of a run changes none of its results."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from tests.chaos.kills.blows import draw, run

# Each has its topics recovered: that takes a minute of a run.
_KILLS: Final = 2


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.usefixtures("own_servers")
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    chaos_seed: int,
    undisturbed: DemoOptions,
    tmp_path_factory: pytest.TempPathFactory,
    out: Path,
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when Kafka is killed")
    blows = draw(["kafka"], undisturbed.jobs, _KILLS, chaos_seed)
    # A broker that has the topics of no other run to recover. A short folder: Unix sockets have
    # short paths.
    with LocalServers(tmp_path_factory.mktemp("broker")) as servers:
        run(replace(undisturbed, out=out), servers, blows, print)
    assert first_difference(undisturbed.out, out) is None
