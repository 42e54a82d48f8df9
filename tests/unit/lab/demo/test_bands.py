"""Jobs that share a node are drawn beside each other."""

from lab.demo.bands import Bands


def test_jobs_lie_on_each_other_as_long_as_they_run() -> None:
    bands = Bands()
    assert bands.place([1, 2], 0.25, 0, 100) == 0.0
    assert bands.place([2, 3], 0.5, 10, 50) == 0.25
    assert bands.place([2], 0.25, 20, 100) == 0.75
    assert bands.place([3], 0.25, 20, 100) == 0.0
    assert bands.place([2], 0.25, 60, 100) == 0.25


def test_a_job_that_fits_into_no_one_hole_is_drawn_all_the_same() -> None:
    bands = Bands()
    assert [bands.place([1], 0.25, 0, end) for end in (50, 100, 50, 100)] == [0, 0.25, 0.5, 0.75]
    assert bands.place([1], 0.5, 60, 100) == 0.0
