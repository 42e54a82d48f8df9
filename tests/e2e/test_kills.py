"""`kill -9` of any of our processes in the middle of a run changes nothing of what the run comes
to. Kafka and Redis have a module of their own: another worker takes it."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import SERVERS, TARGETS, draw, run
from tests.e2e.conftest import KILLS


@pytest.mark.long
@pytest.mark.parametrize("target", [target for target in TARGETS if target not in SERVERS])
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    target: str, chaos_seed: int, undisturbed: DemoOptions, servers: LocalServers, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when {target} is killed")
    blows = draw([target], undisturbed.jobs, KILLS, chaos_seed)
    run(replace(undisturbed, out=out), servers, blows, print)
    assert first_difference(undisturbed.out, out) is None
