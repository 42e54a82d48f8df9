"""`kill -9` of any of our processes in the middle of a run changes nothing of what the run comes
to. Kafka and Redis have a module of their own: another worker takes it."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import SERVERS, TARGETS, on_each, run
from tests.e2e.conftest import KILLS

_OURS: Final = [target for target in TARGETS if target not in SERVERS]
# A run takes as long to begin as to be played: each strikes three of them.
_THIRDS: Final = [_OURS[first::3] for first in range(3)]


@pytest.mark.long
@pytest.mark.parametrize("targets", _THIRDS, ids="+".join)
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    targets: list[str], chaos_seed: int, undisturbed: DemoOptions, servers: LocalServers, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when they are killed: {targets}")
    blows = on_each(targets, undisturbed.jobs, KILLS, chaos_seed)
    run(replace(undisturbed, out=out), servers, blows, print)
    assert first_difference(undisturbed.out, out) is None
