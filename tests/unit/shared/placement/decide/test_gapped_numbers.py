"""Numbers with gaps ascend whatever comes between them, and most stay as they are."""

from random import Random

import pytest

from shared.placement.decide.gapped_numbers import MOST, renumbered


def shaken(order: list[int], known: int, random: Random) -> list[int]:
    """Some come, go, or change places."""
    match random.choice(["come", "come", "go", "sort", "shuffle"]):
        case "come":
            at = random.choice([0, len(order), random.randrange(len(order) + 1)])
            order = [*order[:at], *range(known, known + random.choice([1, 1, 4])), *order[at:]]
        case "go":
            order = [each for each in order if random.random() < 0.9]
        case "sort":
            order = sorted(order, key=lambda each: each + random.choice([0, 0, 9]))
        case _:
            order = random.sample(order, len(order)) if random.random() < 0.2 else order
    return order


@pytest.mark.parametrize("seed", range(20))
def test_numbers_ascend_within_their_bounds_whatever_happens(seed: int) -> None:
    random, numbers, order = Random(seed), dict[int, int](), list[int]()
    for step in range(200):
        order = shaken(order, step * 10, random)
        found = renumbered([numbers.get(each, 0) for each in order])
        assert found == sorted(set(found))
        assert all(0 < number < MOST for number in found)
        numbers = dict(zip(order, found, strict=True))


def test_the_most_that_ascend_keep_their_numbers() -> None:
    before = renumbered([0] * 1000)
    moved = [*before[1:], before[0], 0]
    assert renumbered(moved)[:-2] == before[1:]
    assert renumbered(before) == before


def test_insertions_at_one_place_number_few_neighbours_anew() -> None:
    numbers, changed = list[int](), 0
    for _ in range(5000):
        middle = len(numbers) // 2
        before = [*numbers[:middle], 0, *numbers[middle:]]
        numbers = renumbered(before)
        changed += sum(new != old for new, old in zip(numbers, before, strict=True))
    assert changed < 100 * 5000
