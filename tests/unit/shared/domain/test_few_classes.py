"""A cluster has few classes of nodes: those that are alike come together where they must."""

import pytest

from shared.domain.few_classes import MOST_CLASSES, few_classes, less_exact


def test_nodes_keep_their_order_while_their_classes_fit() -> None:
    nodes = [(index, (index % 2,)) for index in range(MOST_CLASSES)]
    assert few_classes(nodes) == nodes


def test_nodes_that_are_alike_come_together_where_there_would_be_too_many_classes() -> None:
    nodes = [(index, (index % 2,)) for index in range(MOST_CLASSES + 1)]
    found = few_classes(nodes)
    assert [kind for _, kind in found] == sorted(kind for _, kind in nodes)
    assert [index for index, kind in found if kind == (1,)] == [*range(1, MOST_CLASSES + 1, 2)]


@pytest.mark.parametrize(
    ("amount", "less"), [(0, 0), (1, 1), (1.9, 1), (64_000, 32_768), (0.1, 0.0625)]
)
def test_an_amount_that_is_less_exact_is_a_power_of_two_that_is_no_more(
    amount: float, less: float
) -> None:
    assert less_exact(amount) == less
