"""The whole system under an adversary where jobs ask for thousandths of cores."""

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from coplace_client.millicores import beside_cores, whole_cores
from tests.chaos import events
from tests.chaos.episode import Episode

_EVENTS = 400
_AMOUNTS = (1, 100, 250, 333, 500, 999, 1000, 1250, 2500)


def _units(rng: Random) -> dict[str, Any]:
    """Small units, on nodes that take many of them."""
    held = rng.choice(_AMOUNTS)
    return {
        "cores_per_unit": whole_cores(held),
        "millicores_per_unit": beside_cores(held),
        "units_per_node": rng.choice([0, 0, 0, 1, 2]),
    }


@pytest.mark.rest
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_seed_finds_a_violation_with_parts_of_cores(seed: int) -> None:
    with patch.object(events, "_units", _units):
        episode = Episode(seed, _EVENTS)
        report = episode.play()
    assert report.violations == ()
    runs = episode.world.journal.runs
    assert any(run.millicores_per_unit for run in runs)
