"""The whole system under an adversary where a site chose predicted run times."""

from typing import Any
from unittest.mock import patch

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from cli.stages import ServiceSettings
from shared.domain.runtimes import Runtimes
from shared.placement.decide.passing import Passing
from tests.chaos import events, world
from tests.chaos.episode import Episode

_EVENTS = 400
_CHOSEN = {"runtimes": Runtimes.PREDICTED, "passing_share": 1.0}
_PREDICTED = world.RULES.model_copy(update=_CHOSEN)


def _of_whole_nodes(**said: Any) -> JobSubmitted:
    """A job without neighbours: beside others requests count."""
    return JobSubmitted(**{**said, "shareable": False})


@pytest.mark.rest
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_seed_finds_a_violation_under_predicted_run_times(seed: int) -> None:
    """With jobs on parts of nodes: `COPLACE_PLACEMENT_RUNTIMES=predicted python -m tests.chaos`."""
    passed: list[int] = []
    take = Passing.take

    def noted(passing: Passing, *placed: Any) -> None:
        take(passing, *placed)
        passed.append(1)

    with (
        patch.object(world, "OWN", ServiceSettings(placement=_PREDICTED)),
        patch.object(Passing, "take", noted),
        patch.object(events, "_units", lambda _rng: {}),
        patch.object(events, "JobSubmitted", _of_whole_nodes),
    ):
        report = Episode(seed, _EVENTS).play()
    assert report.violations == ()
    assert passed
