"""Random cases by their seeds, as one test."""

from collections.abc import Callable, Iterable
from functools import update_wrapper


def of_each_seed(seeds: Iterable[int]) -> Callable[[Callable[[int], None]], Callable[[], None]]:
    """Play a test with each seed; a failure names the seed. A test of each would take longer to
    begin than to play."""

    def decorate(test: Callable[[int], None]) -> Callable[[], None]:
        def play() -> None:
            for seed in seeds:
                try:
                    test(seed)
                except BaseException as error:
                    error.add_note(f"seed {seed}")
                    raise

        update_wrapper(play, test)
        del play.__wrapped__  # type: ignore[attr-defined]
        return play

    return decorate
