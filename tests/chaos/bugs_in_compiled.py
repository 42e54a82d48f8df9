"""Bugs planted in what is compiled: played as plain Python, by `test_asking.py`."""

from tests.chaos.asking_mutants import parts_are_cut_from_the_nodes_in_order
from tests.chaos.episode import Episode

_SEED, _EVENTS = 2, 300


def test_parts_that_are_cut_from_the_nodes_in_order_are_found() -> None:
    with parts_are_cut_from_the_nodes_in_order():
        found = Episode(_SEED, _EVENTS, asking=True).play().violations
    assert any(each.startswith("every gang starts whole") for each in found)
