"""A wall clock that jumps, and one that does not."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.clock import ClockJumpedError, GuardedClock, read_clocks
from shared.process.clock import now_us
from tests.support.messaging import START_US

S = 1_000_000
Y2036_US = 2_082_758_400 * S
TOLERANCE_US, PATIENCE_US = 10 * S, 60 * S


@dataclass
class Machine:
    """Its two clocks."""

    wall_us: int = START_US
    steady_us: int = 5 * S

    def read(self) -> tuple[int, int]:
        return self.wall_us, self.steady_us

    def wait(self, seconds: float) -> None:
        self.wall_us += round(seconds * S)
        self.steady_us += round(seconds * S)

    def clock(self) -> GuardedClock:
        return GuardedClock(self.read, TOLERANCE_US, PATIENCE_US)


@pytest.mark.parametrize(("jump_us", "for_s"), [(3_600 * S, 12), (Y2036_US - START_US, 5)])
def test_a_jump_ahead_that_returns_leaves_no_trace(jump_us: int, for_s: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us += jump_us
    for passed in range(1, for_s + 1):
        machine.wait(1)
        assert clock.now_us() == START_US + passed * S
        assert clock.off_us == jump_us
        clock.check()
    machine.wall_us -= jump_us
    machine.wait(1)
    assert clock.now_us() == START_US + (for_s + 1) * S
    assert clock.off_us == 0


def test_a_clock_that_stays_off_ends_the_process_with_what_to_do() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us += 3_600 * S
    clock.now_us()
    machine.wait(PATIENCE_US / S)
    clock.now_us()
    clock.check()
    machine.wait(1)
    clock.now_us()
    with pytest.raises(ClockJumpedError, match=r"\+3600\.0 s off .* set it right"):
        clock.check()
    assert machine.clock().now_us() == START_US + 3_661 * S


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([1, 86_400]), st.integers(-TOLERANCE_US, TOLERANCE_US)),
        max_size=50,
    )
)
def test_what_keeping_the_time_takes_is_followed_also_over_a_machines_sleep(
    steps: list[tuple[int, int]],
) -> None:
    """The steady clock goes on while it sleeps."""
    machine = Machine()
    clock = machine.clock()
    for passed_s, step_us in steps:
        machine.wait(passed_s)
        machine.wall_us += step_us
        assert clock.now_us() == machine.wall_us
        assert clock.off_us == 0


@given(jumps=st.lists(st.tuples(st.integers(0, 30 * S), st.integers(-(10**15), 10**15))))
def test_whatever_the_wall_clock_does_time_passes_as_it_does(jumps: list[tuple[int, int]]) -> None:
    """Within the tolerance of each step that is followed."""
    machine = Machine()
    clock = machine.clock()
    before_us = clock.now_us()
    for passed_us, jump_us in jumps:
        machine.steady_us += passed_us
        machine.wall_us += passed_us + jump_us
        now = clock.now_us()
        assert abs(now - before_us - passed_us) <= TOLERANCE_US
        before_us = now


def test_the_processes_own_clock_is_the_machines() -> None:
    wall_us, _ = read_clocks()
    assert abs(now_us() - wall_us) < TOLERANCE_US
