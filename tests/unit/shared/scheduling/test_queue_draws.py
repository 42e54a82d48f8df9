from random import Random

from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.wait_queue import Block, Entry, OtherMode
from tests.support.seeds import of_each_seed


def an_entry(order: int, rng: Random) -> Entry:
    others = tuple(
        OtherMode(float(rng.randint(1, 9)), rng.randint(1, 9)) for _ in range(rng.randint(0, 2))
    )
    limit_s, draw_mw = float(rng.randint(1, 9)), rng.randint(1, 9)
    return Entry(order, order, 1, limit_s, draw_mw=draw_mw, others=others)


def front_of(entries: list[Entry]) -> list[tuple[float, int]]:
    """Those that no other one undercuts in limit and draw."""
    modes = {(e.limit_s, e.draw_mw) for e in entries}
    modes |= {(mode.limit_s, mode.draw_mw) for e in entries for mode in e.others}
    return sorted(
        mode
        for mode in modes
        if not any(o != mode and o[0] <= mode[0] and o[1] <= mode[1] for o in modes)
    )


@of_each_seed(range(40))
def test_the_least_draws_are_those_that_no_mode_undercuts_whoever_came_or_left(seed: int) -> None:
    rng, block = Random(seed), Block()
    for order in range(12):
        block.insert(an_entry(order, rng))
        assert block.least_draws() == front_of(block.entries)
    assert block.least_draws_now() is None
    before = front_of(block.entries)
    block.remove(rng.randrange(12))
    after = front_of(block.entries)
    anew = block.least_draws_now()
    assert block.least_draws() == after
    assert anew is not None if after != before else anew in (None, after)
    draws = [(entry.draw_mw, *(mode.draw_mw for mode in entry.others)) for entry in block.entries]
    assert block.least_draws()[-1][1] == min(map(min, draws))


@of_each_seed(range(40))
def test_one_of_several_draws_fits_where_it_fits_alone(seed: int) -> None:
    rng = Random(seed)
    points = [(0.0, 9), *[(float(rng.randint(1, 20)), rng.randint(0, 9)) for _ in range(4)]]
    least = LeastHeadroom(points, ())
    draws = front_of([an_entry(order, rng) for order in range(4)])
    alone = [least.has(draw_mw, 2.0 + limit_s) for limit_s, draw_mw in draws]
    assert least.has_any(draws, 2.0) == any(alone)
