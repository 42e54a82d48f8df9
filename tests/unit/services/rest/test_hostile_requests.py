"""A small form of the attack that `make fuzz-rest` plays at length."""

import pytest

from services.rest.openapi import document
from services.rest.routes import routes
from tests.attacks.rest import Attacker, play


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_request_ends_a_process_or_is_answered_without_words(seed: int) -> None:
    answers, wrong = await play(seed, 300)
    assert wrong == []
    assert sum(answers.values()) == 300
    assert {200, 202, 400, 404, 405} <= answers.keys()


def test_equal_seeds_draw_equal_requests() -> None:
    described = document(routes())
    first, again, other = (list(Attacker(seed, described).requests(50)) for seed in (1, 1, 2))
    assert first == again != other
