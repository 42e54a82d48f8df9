"""Names in the order in which people read them."""

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.natural_order import natural

NAMES = st.lists(st.text("ab/-_.0123456789٣é", max_size=12), max_size=12)


def test_numbers_in_names_compare_as_numbers() -> None:
    jobs = ["s/p/4/1", "s/p/22/1", "s/p/100/0", "s/q/1", "s/q/01", "t"]
    assert sorted(set(jobs), key=natural) == [*jobs[:3], "s/q/01", "s/q/1", "t"]
    assert natural("9" * 10_000) < natural("1" + "0" * 10_000)


@given(NAMES, st.randoms())
def test_any_names_have_one_order(names: list[str], random: object) -> None:
    ordered = sorted(names, key=natural)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert sorted(names, key=natural) == ordered


@given(st.lists(st.integers(0, 10**30), max_size=12))
def test_whole_numbers_are_in_their_own_order(numbers: list[int]) -> None:
    names = sorted((f"job-{each}/1" for each in numbers), key=natural)
    assert names == [f"job-{each}/1" for each in sorted(numbers)]
