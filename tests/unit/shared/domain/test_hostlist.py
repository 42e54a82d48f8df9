"""Host lists: short forms of node names, however hostile."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.bounds import MOST_NODES
from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand
from shared.domain.node import NodeNames

# Far more than any of these takes, and less than squares of what they hold take.
_MOST_S = 20.0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[001-003,7],login1", ["n001", "n002", "n003", "n7", "login1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
    ],
)
def test_a_host_list_names_its_nodes_in_order(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["", ",", "n1,", ",n1", "n[", "n]", "n[]", "n[2-1]", "n[[1]]", "n[a-b]", "n[1-2", "n\n"]
)
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(RejectedError, match="nodes:"):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "a," * 500_000,
        "[" * 1_000_000,
        "a[" * 500_000,
        "[1]" * 330_000,
        "[1-1]" * 200_000 + "[1",
        "n[" + "1," * 500_000 + "1]",
        "n[1-9]," * 140_000,
        "x" * 500_000 + "[000000-099999]",
        "[0-9]" * 100,
        "n[0-999999999]",
    ],
)
def test_hostile_lists_are_refused_at_once(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(RejectedError):
        expand(text)
    assert time.process_time() - began_s < _MOST_S


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n[000000-099999]", MOST_NODES),
        (",".join(f"n{index}" for index in range(20_000)), 20_000),
        (",".join(f"n[{index}]" for index in range(20_000)), 20_000),
    ],
    ids=["a range", "names", "ranges of one"],
)
def test_the_names_of_large_clusters_are_expanded_at_once(text: str, nodes: int) -> None:
    began_s = time.process_time()
    assert len(NodeNames("alpha", [text])) == nodes
    assert time.process_time() - began_s < _MOST_S


def test_a_name_that_is_longer_than_host_names_are_is_refused() -> None:
    assert expand("x" * 64) == ["x" * 64]
    for name in ("x" * 65, "x" * 60 + "[00001-00002]"):
        with pytest.raises(RejectedError, match="at most 64 characters"):
            expand(name)


@given(st.text("an,[]-01", max_size=40))
def test_whatever_the_text_it_names_nodes_or_is_refused(text: str) -> None:
    try:
        names = expand(text)
    except RejectedError:
        return
    assert names
    assert all(names)
