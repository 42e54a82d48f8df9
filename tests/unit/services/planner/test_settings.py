"""How often a planner searches by its settings, and the periods that would let it lag for good."""

from typing import Any

import pytest

from coplace_client.errors import WrongSettingsError
from services.planner.app import stages
from services.planner.settings import PlannerSettings, SearchKind
from shared.process.settings import Settings


def dec(**values: Any) -> PlannerSettings:
    return PlannerSettings(search=SearchKind.DEC, **values)


@pytest.mark.parametrize("search", [each for each in SearchKind if each is not SearchKind.DEC])
def test_what_takes_no_time_searches_once_a_second(search: SearchKind) -> None:
    assert PlannerSettings(search=search).period_between_s == 1.0
    assert PlannerSettings(search=search, period_s=0.0).period_between_s == 0.0


@pytest.mark.parametrize(
    ("solve_s", "longest_solve_s", "tried_s"),
    [(1.0, 8.0, 15.0), (1.0, 7.9, 7.0), (2.0, 1.0, 2.0), (0.5, 4.5, 7.5)],
)
def test_who_solves_rests_as_long_as_a_plan_without_an_answer_takes(
    solve_s: float, longest_solve_s: float, tried_s: float
) -> None:
    own = dec(solve_s=solve_s, longest_solve_s=longest_solve_s)
    assert (own.longest_plan_s, own.period_between_s) == (tried_s, 2 * tried_s)
    limits = {"solve_s": solve_s, "longest_solve_s": longest_solve_s}
    assert dec(period_s=tried_s, **limits).period_between_s == tried_s
    with pytest.raises(WrongSettingsError, match=rf"period_s=.* less than the {tried_s:g} s"):
        dec(period_s=0.99 * tried_s, **limits)


def test_longer_answers_need_a_longer_period() -> None:
    with pytest.raises(WrongSettingsError, match=r"period_s=30 .* longest_solve_s.* lag for good"):
        dec(period_s=30.0, longest_solve_s=16.0)


def test_the_process_searches_as_often_as_its_settings_say() -> None:
    for own, period_us in ((dec(), 30_000_000), (PlannerSettings(), 1_000_000)):
        [stage] = stages(Settings(), own)
        assert stage.create(0, {})._search.period_us == period_us  # type: ignore[attr-defined]
