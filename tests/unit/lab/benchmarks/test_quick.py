"""What a job and a round cost beside figures of before."""

import pytest

from lab.benchmarks.quick.figures import committed, counted, worse

BEFORE = {"instructions of a job": 10.0, "bytes of a job": 1_000.0}


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"instructions of a job": 11.4, "bytes of a job": 900.0}, []),
        ({"instructions of a job": 11.6, "bytes of a job": 1_151.0}, list(BEFORE)),
        ({"instructions of a job": 1.0}, ["bytes of a job"]),
        ({**BEFORE, "records of a job": 1.0}, ["records of a job"]),
    ],
)
def test_figures_that_are_worse_are_named_and_those_that_one_of_both_lacks(
    found: dict[str, float], named: list[str]
) -> None:
    assert worse(found, BEFORE) == named


def test_what_valgrind_counted_is_read_from_what_it_says() -> None:
    assert (
        counted("==7==\n==7== Events    : Ir\n==7== Collected : 1125412550\n==7==\n") == 1125412550
    )
    with pytest.raises(ValueError, match="did not say what it counted: 'Segmentation"):
        counted("Segmentation fault")


def test_the_figures_of_before_are_there_and_none_is_nothing() -> None:
    assert min(committed().values()) > 0
