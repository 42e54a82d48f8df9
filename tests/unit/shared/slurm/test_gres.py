"""Generic resources as Slurm's nodes and jobs have them."""

import pytest

from shared.slurm.gres import gres_counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("gpu:2", {"gpu": 2}),
        ("gres:gpu:1", {"gpu": 1}),
        ("gres/gpu", {"gpu": 1}),
        ("gres/gpu=1", {"gpu": 1}),
        ("gpu:a100:2(S:0-1),gpu:l4:1(S:0,2)", {"gpu": 3, "gpu:a100": 2, "gpu:l4": 1}),
        ("gres/gpu:a100:2,cpu=3", {"gpu": 2, "gpu:a100": 2}),
        ("tmp:no_consume:1K", {"tmp": 1024}),
        ("mem:5,license/x:3,?!", {}),
    ],
)
def test_a_list_says_how_many_of_each_thing_and_of_each_type(
    text: str, counts: dict[str, int]
) -> None:
    assert gres_counts(text) == counts
