"""Names of nodes."""

import pytest

from shared.domain.errors import RejectedError
from shared.domain.node import node_index, node_name


def test_a_name_leads_back_to_its_index() -> None:
    assert node_name("p-1", 7) == "p-1-0007"
    assert [node_index("p-1", node_name("p-1", index)) for index in (0, 12_345)] == [0, 12_345]


@pytest.mark.parametrize("name", ["p2-0001", "p1-", "p1-x", "p1", "p1-²"])
def test_a_name_of_another_form_or_cluster_is_rejected(name: str) -> None:
    with pytest.raises(RejectedError, match="no node of p1"):
        node_index("p1", name)
