"""What a job and a round cost beside figures of before."""

import pytest

from lab.benchmarks import quick
from lab.benchmarks.quick import FIGURES, Loop, committed, measure, worse

BEFORE = {"CPU of a job": 10.0, "bytes of a job": 1_000.0}


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"CPU of a job": 11.4, "bytes of a job": 900.0}, []),
        ({"CPU of a job": 11.6, "bytes of a job": 1_151.0}, ["CPU of a job", "bytes of a job"]),
        ({"CPU of a job": 1.0}, ["bytes of a job"]),
        ({**BEFORE, "records of a job": 1.0}, ["records of a job"]),
    ],
)
def test_figures_that_are_worse_are_named_and_those_that_one_of_both_lacks(
    found: dict[str, float], named: list[str]
) -> None:
    assert worse(found, BEFORE) == named


def test_what_was_worse_once_is_measured_again_and_the_least_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plays = iter([{"CPU of a job": each} for each in (13.0, 12.0, 10.5, 9.0)])
    good = iter([{"bytes of a job": 1_000.0}])
    monkeypatch.setattr(quick, "MEASURES", (lambda: next(plays), lambda: next(good)))
    assert measure(BEFORE) == {"CPU of a job": 10.5, "bytes of a job": 1_000.0}
    assert next(plays) == {"CPU of a job": 9.0}, "as often as said"


def test_a_time_counts_in_runs_of_the_loop() -> None:
    loop = Loop()
    for _ in range(3):
        loop.run()
    assert loop.of(loop.cpu_s) == pytest.approx(3)


def test_the_figures_of_before_are_there() -> None:
    assert FIGURES.is_file()
    assert min(committed().values()) > 0
