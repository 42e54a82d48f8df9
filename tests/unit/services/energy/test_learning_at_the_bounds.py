"""What is learned of values at their bounds is still what readers of coefficients take."""

from random import Random
from typing import Any

from coplace.v1.energy_pb2 import CoefficientsPublished
from coplace.v1.telemetry_pb2 import SignatureMeasured

from coplace_client.bounds import QUANTITIES
from services.energy.processor.learner import Learner
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.streams.stages.stage import Round

_METRICS = ("time_s", "power_w", "cpi", "tpi", "mem_gbps")


def kernel(draw: Random, number: int, freq_ghz: float) -> Event:
    """A kernel each of whose metrics is at a bound, or hardly off it."""
    values: dict[str, Any] = {}
    for name in _METRICS:
        bound = QUANTITIES[name]
        values[name] = draw.choice((bound.least, bound.most, bound.most * (1 - 1e-15)))
    payload = SignatureMeasured(
        app_id=f"k{number}",
        node_model="m0",
        freq_ghz=freq_ghz,
        tpi_scale="table1",
        kernel=True,
        **values,
    )
    check_contents(payload)
    return Event(f"k/{number}/{freq_ghz}", "north", number, "m0", payload)


def test_coefficients_of_kernels_at_the_bounds_are_taken() -> None:
    draw = Random(5)
    for _ in range(20):
        learner = Learner({})
        for number in range(6):
            for freq_ghz in (0.1, 1.0, 10.0):
                assert not list(learner.handle(kernel(draw, number, freq_ghz)))
        [published] = learner.end_round(Round(0, 30_000_000))
        assert isinstance(published.event.payload, CoefficientsPublished)
        check_contents(published.event.payload)
