"""The whole system under an adversary where a site chose Slurm's discipline."""

from typing import Any
from unittest.mock import patch

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from cli.stages import ServiceSettings
from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.decide.looks import Looks
from shared.scheduling.backfill import Dispatch
from shared.scheduling.looks import ReservedStart
from tests.chaos import events, world
from tests.chaos.episode import Episode

_EVENTS = 400
_SLURM = world.RULES.model_copy(update={"discipline": QueueDiscipline.SLURM})


def _of_whole_nodes(**said: Any) -> JobSubmitted:
    """A job without neighbours: beside others clusters are under EASY."""
    return JobSubmitted(**{**said, "shareable": False})


@pytest.mark.rest
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_seed_finds_a_violation_under_slurms_discipline(seed: int) -> None:
    """With jobs on parts of nodes: `COPLACE_PLACEMENT_DISCIPLINE=slurm python -m tests.chaos`."""
    reserved: list[ReservedStart] = []
    note = Looks.note

    def noted(looks: Looks, plan: Dispatch) -> None:
        note(looks, plan)
        for cluster in plan.schedulers:
            reserved.extend(looks.last(cluster).reserved)

    with (
        patch.object(world, "OWN", ServiceSettings(placement=_SLURM)),
        patch.object(Looks, "note", noted),
        patch.object(events, "_units", lambda _rng: {}),
        patch.object(events, "JobSubmitted", _of_whole_nodes),
    ):
        report = Episode(seed, _EVENTS).play()
    assert report.violations == ()
    assert reserved
