"""`kill -9` of those who propose and follow plans changes nothing of what a run comes to."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from cli.demo.policy import DemoPolicy
from cli.demo.run import run_embedded
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import OF_PLANS, one_each, run

# Of this seed some of so few jobs start by a plan.
PLANNED = DemoOptions(seed=2, jobs=80, policy=DemoPolicy.LOOK_AHEAD, workers=2)


@pytest.mark.usefixtures("own_servers")
def test_kills_of_planner_and_both_placements_change_none_of_a_planned_run_s_files(
    chaos_seed: int, servers: LocalServers, tmp_path: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when planner and placements are killed")
    undisturbed = replace(PLANNED, out=tmp_path / "undisturbed")
    run_embedded(undisturbed, Console(quiet=True))
    assert b'"plan_round"' in (undisturbed.out / "decisions.jsonl").read_bytes()
    blows = one_each(OF_PLANS, PLANNED.jobs, chaos_seed)
    run(replace(PLANNED, out=tmp_path / "struck"), servers, blows, print)
    assert first_difference(undisturbed.out, tmp_path / "struck") is None
