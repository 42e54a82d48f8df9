"""The contention model that replaces groups which nobody published."""

import pytest

from lab.papers.colocation.contention import (
    CORES,
    FREQUENCIES_GHZ,
    NATURES,
    NEIGHBOURS,
    all_groups,
    alone,
    mixed_groups,
    played,
    training_groups,
)


@pytest.mark.parametrize("app", NATURES)
def test_alone_at_the_highest_frequency_an_application_takes_what_was_declared(app: str) -> None:
    assert played([app], 3.2).seconds[0] == pytest.approx(NATURES[app].alone_s, rel=1e-6)
    counted = alone()[app, 3.2]
    assert counted.memory_intensity == pytest.approx(NATURES[app].misses)


@pytest.mark.parametrize("app", NATURES)
def test_neighbours_and_a_slower_clock_never_make_it_faster(app: str) -> None:
    taken = [played([app, *["cg"] * copies], 3.2).seconds[0] for copies in range(CORES)]
    assert taken == sorted(taken)
    slower = [played([app, "sp"], freq_ghz).seconds[0] for freq_ghz in FREQUENCIES_GHZ]
    assert slower == sorted(slower)


def test_runs_are_those_of_the_papers_schedule_and_of_all_its_groups() -> None:
    assert len(list(training_groups(3, 0))) == 6 * 11 * 4 * 2
    assert len(list(mixed_groups(0))) == 6 * 11 * 6
    # Of 5 x 5 ordered neighbours, one of which is nobody, 14 differ but for their order.
    assert len(list(all_groups(3, 0))) == len(NEIGHBOURS) * 14
