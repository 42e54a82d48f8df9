"""No job and no round costs much more than the figures of before say."""

from lab.benchmarks.quick.figures import committed, measure, worse


def test_no_figure_is_more_than_fifteen_percent_worse_than_before() -> None:
    found = measure()
    assert worse(found, committed()) == [], found
