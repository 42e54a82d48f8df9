"""The benchmark's streams are what they say, and its errors are reckoned right."""

import numpy as np
import pytest

from services.agent.model import Timing
from shared.models.shutters import unfiltered_slowdown
from tests.benchmarks.pricing.pairs import Measured, summary
from tests.benchmarks.pricing.streams import Stream, shutters, stream


def test_the_true_slowdown_is_time_by_the_time_that_the_work_takes_alone() -> None:
    # Half of the time at half of the pace: 2 s hold 1 s and 0.5 s of work.
    found = Stream(np.array([2.0, 2.0]), np.array([2.0, 1.0]))
    assert found.slowdown_ratio == pytest.approx(2 / 1.5)


def test_a_stream_is_as_long_as_a_run_and_is_slowed_down_by_its_co_runners() -> None:
    found = stream(1, 3)
    assert len(found.solo) == len(found.co) == 300_000
    assert (found.co <= found.solo).all()


def test_shutters_of_one_phase_see_its_slowdown() -> None:
    found = Stream(np.full(300_000, 1.5), np.full(300_000, 1.2))
    seen = shutters(found, Timing(0.0032, 1, 0.2), 2, seed=1)
    assert len(seen) == pytest.approx(60 / (2 * 0.2096), abs=2)
    assert unfiltered_slowdown(seen) == pytest.approx(1.25, rel=0.01)


def test_errors_are_of_the_predicted_runtime() -> None:
    one = Measured("a", "b", 1, 1.25, 0.01, 1.0, 1.25, 3, 9)
    *_, every = summary([one, one])
    assert every["filtered"] == "20.0 %"
    assert every["unfiltered"] == "0.0 %"
    assert every["degraded by 15 % or more"] == "2 of 2"
