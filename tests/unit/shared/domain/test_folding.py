"""Node names fold into host lists and out of them again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.bounds import MOST_NODES
from shared.domain.folding import fold, most_folded_bytes
from shared.domain.hostlist import expand

A_NAME = st.one_of(
    st.builds("n{:03d}".format, st.integers(0, 1_100)),
    st.builds("n{}".format, st.integers(0, 120)),
    st.builds("r{}n{}".format, st.integers(0, 12), st.integers(0, 12)),
    st.builds("n{}-ib{}".format, st.integers(0, 12), st.integers(0, 1)),
    st.text("ab019-", min_size=1, max_size=14),
    st.text(
        st.characters(exclude_characters=",[]", exclude_categories=["C", "Z"]),
        min_size=1,
        max_size=6,
    ),
)
SOME_DECLARED = st.sampled_from(
    ["n[001-090]", "r[1-9]n[1-12]", "n[1-30]-ib[0-1]", "n[9-11,1-3,7,5]", "a,b,c1,c2,d[1-3]x,d5"]
)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["n001", "n002", "n003", "n007", "login1"], ["n[001-003,007]", "login1"]),
        (["n9", "n10", "n11"], ["n[9-11]"]),
        (["n09", "n10", "n100"], ["n[09-10,100]"]),
        (["n1-ib0", "n2-ib0"], ["n[1-2]-ib0"]),
        (["r1n1", "r1n2", "r2n1"], ["r1n[1-2]", "r2n1"]),
        (["n3", "n1", "n2"], ["n[3,1-2]"]),
        (["n1"], ["n1"]),
        ([], []),
    ],
)
def test_names_that_differ_in_one_number_become_one_entry(
    names: list[str], folded: list[str]
) -> None:
    assert fold(names) == folded


@given(st.lists(A_NAME, min_size=1, max_size=40))
def test_what_was_folded_expands_to_the_same_names_in_the_same_order(names: list[str]) -> None:
    assert expand(",".join(fold(names))) == names


@given(
    st.lists(A_NAME, min_size=1, max_size=40, unique=True) | SOME_DECLARED.map(expand), st.data()
)
def test_no_fold_of_some_names_is_longer_than_said(names: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(range(len(names)))))
    some = [name for index, name in enumerate(names) if index in chosen]
    assert sum(len(entry.encode()) + 1 for entry in fold(some)) <= most_folded_bytes(names)


def test_the_largest_cluster_folds_in_well_under_a_second() -> None:
    names = [f"node{index:06d}" for index in range(MOST_NODES)]
    began_s = time.process_time()
    assert fold(names) == ["node[000000-099999]"]
    worst = fold(names[::3] + names[1::3])
    assert len(worst[0]) < most_folded_bytes(names) < 512 * 1024
    assert time.process_time() - began_s < 5
