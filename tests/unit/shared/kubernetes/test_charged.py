"""Users read what a run cost."""

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade

from shared.kubernetes.charged import charged_words


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "run 1: 60 s on 8 cores, 0.500000 service units"),
        (
            {"predicted_energy_j": 3_600_000.0, "slowdown_ratio": 1.25, "revision": 1},
            "run 1: 60 s on 8 cores, 0.500000 service units, 1.000 kWh predicted, slowdown 1.25",
        ),
        (
            {"finished": JobFinished(energy_j=1_800_000), "predicted_energy_j": 7, "revision": 2},
            "run 1: 60 s on 8 cores, 0.500000 service units, 0.500 kWh measured (revision 2)",
        ),
    ],
)
def test_words_name_what_is_known(more: dict[str, object], words: str) -> None:
    charge = ChargeMade(attempt=1, runtime_s=60, cores=8, price_su="0.500000", **more)  # type: ignore[arg-type]
    assert charged_words(charge) == f"Coplace: {words}"
