"""Names of nodes."""

import pytest

from coplace_client.errors import RejectedError
from shared.domain.node import NodeNames, node_index, node_name


def test_without_declared_names_a_name_leads_back_to_its_index() -> None:
    assert node_name("p-1", 7) == NodeNames("p-1").name(7) == "p-1-0007"
    for index in (0, 7, 12_345):
        name = node_name("p-1", index)
        assert node_index("p-1", name) == NodeNames("p-1").index(name) == index


@pytest.mark.parametrize("name", ["p2-0001", "p1-", "p1-x", "p1", "p1-²"])
def test_a_name_of_another_form_or_cluster_is_rejected(name: str) -> None:
    with pytest.raises(RejectedError, match="not a node of p1"):
        node_index("p1", name)


def test_declared_names_count_in_their_order() -> None:
    names = NodeNames("p1", ["n[001-002],login1", "x9"])
    assert [names.name(index) for index in range(4)] == ["n001", "n002", "login1", "x9"]
    assert names.index("x9") == 3
    with pytest.raises(RejectedError, match="not a declared node of p1"):
        names.index("p1-0000")


@pytest.mark.parametrize("hosts", [["n1", "n1"], ["n[1-"], [""], ["n[00000-99999]", "m"], ["a\nb"]])
def test_names_that_are_none_or_there_twice_are_refused(hosts: list[str]) -> None:
    with pytest.raises(RejectedError):
        NodeNames("p1", hosts)


def test_nodes_are_found_by_name_and_by_host_list() -> None:
    assert NodeNames("p1", ["n[001-020]"]).indices(["n[002-004]", "n001", "n003"]) == (0, 1, 2, 3)
    assert NodeNames("p1").indices(["p1-[0007-0008]"]) == (7, 8)
    assert NodeNames("a,b[1]").indices(["a,b[1]-0007"]) == (7,)
    with pytest.raises(RejectedError, match="'n099' is not a declared node of p1"):
        NodeNames("p1", ["n[001-020]"]).indices(["n[019,099]"])


def test_names_mean_the_same_when_they_come_again_alone_and_among_host_lists() -> None:
    names = NodeNames("alpha")
    for _ in range(2):
        assert names.indices(["alpha-0003", "alpha-0001", "alpha-1"]) == (1, 3)
        assert names.indices(["alpha-[0001-0002]", "alpha-0003"]) == (1, 2, 3)
        with pytest.raises(RejectedError):
            names.indices(["alpha-0001", "beta-0001"])
