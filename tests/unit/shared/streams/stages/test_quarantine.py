"""What a failure is blamed on."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from shared.streams.stages.quarantine import Fault, culprits


def raised(fail: Callable[[], object]) -> Fault:
    try:
        fail()
    except Exception as error:  # noqa: BLE001 any
        return Fault.from_error(error)
    raise AssertionError("nothing was raised")


def divide(by: int) -> float:
    return 1 / by


def endless(depth: int) -> int:
    return endless(depth + 1) + 1


@given(bad=st.sets(st.integers(0, 200)))
def test_all_that_fail_by_themselves_are_found_and_nothing_else(bad: set[int]) -> None:
    found = culprits(range(201), lambda left_out: bool(bad - set(left_out)), 201)
    assert sorted(found or []) == sorted(bad)


@given(data=st.data(), size=st.integers(2, 80))
def test_of_those_that_fail_together_alone_only_the_last_is_left_out(
    data: st.DataObject, size: int
) -> None:
    together = data.draw(st.sets(st.integers(0, size - 1), min_size=2))
    found = culprits(range(size), lambda left_out: not together & set(left_out), size)
    assert found == [max(together)]


def test_one_of_ten_thousand_is_found_in_few_trials() -> None:
    trials = 0

    def fails(left_out: Sequence[int]) -> bool:
        nonlocal trials
        trials += 1
        return 7_777 not in left_out

    assert culprits(range(10_000), fails, 1) == [7_777]
    assert trials <= 17


def test_what_fails_whatever_is_left_out_is_nobodys_fault() -> None:
    assert culprits([1, 2, 3], lambda _left_out: True, 9) is None
    assert culprits([], lambda _left_out: True, 9) is None
    assert culprits(range(9), lambda left_out: len(left_out) < 5, 4) is None, "more than the most"


def test_a_failure_has_the_same_digest_whatever_the_input_and_from_wherever() -> None:
    first, second = raised(lambda: divide(0)), raised(lambda: divide(False))
    assert first.what == "ZeroDivisionError: division by zero"
    assert "test_quarantine:" in first.stack
    assert len(first.digest) == 64
    assert first.digest == second.digest != raised(lambda: int("x")).digest


def test_an_endless_recursion_is_one_failure_and_its_stack_is_bounded() -> None:
    shallow, deep = raised(lambda: endless(0)), raised(lambda: endless(-1))
    assert shallow.what.startswith("RecursionError")
    assert len(shallow.stack) <= 8_192
    assert shallow.digest == deep.digest
