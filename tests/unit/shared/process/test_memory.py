"""Cycles are looked for rarely."""

import gc

from shared.process.memory import collect_rarely


def test_a_process_that_holds_a_state_does_not_go_through_it_for_every_few_hundred_objects() -> (
    None
):
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        collect_rarely()
        young, *_ = gc.get_threshold()
        assert young >= 50_000
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
