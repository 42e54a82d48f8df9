"""No job and no round costs more than the figures of before say."""

import gc

from lab.benchmarks.quick import committed, measure, worse
from shared.process.life import GC_THRESHOLDS


def test_no_figure_is_more_than_fifteen_percent_worse_than_before() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    before = committed()
    try:
        found = measure(before)
    finally:
        gc.set_threshold(*thresholds)
    assert worse(found, before) == [], found
