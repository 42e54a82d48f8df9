"""What a run drew under its caps."""

from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PowerCapDeclared

from lab.demo.caps import caps_in_force
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

S = 1_000_000


def test_a_later_cap_of_the_same_replaces_the_steps_of_the_one_before() -> None:
    first = region.capped(POWER_SCOPE_REGION, "", (0, 9.0), (100, 8.0), (300, 7.0))
    second = region.capped(POWER_SCOPE_REGION, "", (250, 5.0), time_us=T0_US + 200 * S)
    told = [e.payload for e in (first, second) if isinstance(e.payload, PowerCapDeclared)]
    (standing,) = caps_in_force(told)
    steps = [
        ((step.from_us - T0_US) // S, step.watts if step.HasField("watts") else None)
        for step in standing.steps
    ]
    assert steps == [(0, 9.0), (100, 8.0), (200, None), (250, 5.0)]
