"""The benchmark's streams are what they say, and its errors are reckoned right."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from coplace_agent.model import Timing, dilation_ratio
from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded
from lab.papers.pricing import charges, quotes
from lab.papers.pricing.charges import play_charges
from lab.papers.pricing.discounts import discounts, relative_price
from lab.papers.pricing.pairs import Measured, summary
from lab.papers.pricing.streams import Stream, played_overhead, shutters, stream
from shared.catalogue.policy_settings import PolicySettings
from shared.models.shutters import unfiltered_slowdown
from shared.replay.region import ReplayedRegion, Setting
from shared.replay.rules import RULES, read_rules


def test_a_stream_is_slowed_down_by_its_co_runners_over_the_time_that_its_work_takes_alone() -> (
    None
):
    # Half of the time at half of the pace: 2 s hold 1 s and 0.5 s of work.
    found = Stream(np.array([2.0, 2.0]), np.array([2.0, 1.0]))
    assert found.slowdown_ratio == pytest.approx(2 / 1.5)
    found = stream(1, 3)
    assert len(found.solo) == len(found.co) == 300_000
    assert (found.co <= found.solo).all()


def test_shutters_of_one_phase_see_its_slowdown() -> None:
    found = Stream(np.full(300_000, 1.5), np.full(300_000, 1.2))
    seen = shutters(found, Timing(0.0032, 1, 0.2), 2, seed=1)
    assert len(seen) == pytest.approx(60 / (2 * 0.2096), abs=2)
    assert unfiltered_slowdown(seen) == pytest.approx(1.25, rel=0.01)


def test_errors_are_of_the_predicted_runtime() -> None:
    one = Measured("a", "b", 1, 1.25, 0.01, 1.0, 1.25, 3, 9)
    *_, every = summary([one, one])
    assert every["filtered"] == "20.0 %"
    assert every["unfiltered"] == "0.0 %"
    assert every["degraded by 15 % or more"] == "2 of 2"


@pytest.mark.parametrize("jobs", [2, 5])
def test_played_shutters_take_what_equation_10_says_where_nobody_disturbs(jobs: int) -> None:
    found, timing = Stream(np.full(300_000, 1.5), np.full(300_000, 1.5)), Timing(0.0128, 1, 0.05)
    modelled = dilation_ratio(jobs, 0.0128, 0.05) - 1
    # A run of 60 s is some 670 or more shutters, and may end within a turn.
    assert played_overhead(found, timing, jobs, seed=3) == pytest.approx(modelled, rel=0.02)


def test_a_job_gains_by_its_own_shutters_what_its_neighbours_cost_it() -> None:
    solo, timing = np.full(300_000, 1.5), Timing(0.0128, 1, 0.05)
    alone = played_overhead(Stream(solo, solo), timing, 2, seed=3)
    assert played_overhead(Stream(solo, solo / 2), timing, 2, seed=3) < alone / 10


def test_relative_prices_and_discounts_are_those_of_the_paper() -> None:
    # Twice as long: full rates cost twice as much, equation 4 by the truth half, and by an estimate
    # of 1.25 it is 2 / 1.25^2.
    assert relative_price(2.0, 1.0) == 2
    assert relative_price(2.0, 2.0) == 0.5
    assert relative_price(2.0, 1.25) == 1.28
    found = discounts([2.0, 1.25], [1.25, 1.25])
    assert found["state of practice"] == "+62.5 %"
    assert found["oracle"] == "-35.0 %"
    assert found["POPPA"] == "+4.0 %"
    assert found["above alone by POPPA"] == "1 of 2"
    assert found["by, in the mean"] == "28.0 %"


def test_charges_are_the_same_from_a_delivery_in_disorder_with_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 200 rounds, after each hundredth of which the processor begins anew.
    monkeypatch.setattr(charges, "_A_ROUND", 2)
    in_order, disordered = play_charges(400), play_charges(400, is_disturbed=True)
    assert disordered.written == in_order.written
    assert disordered.owed_micro_su == in_order.owed_micro_su > 0


def test_quotes_are_made_by_the_rules_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where meters that are read at the ends of jobs alone counted as silent, jobs that were to
    wait for watts had started at once."""
    run_embedded(DemoOptions(jobs=20, out=tmp_path), Console(quiet=True))
    asked: list[PolicySettings] = []

    def region(setting: Setting, began_us: int) -> ReplayedRegion:
        asked.append(setting.rules)
        return ReplayedRegion(setting, began_us)

    monkeypatch.setattr(quotes, "ReplayedRegion", region)
    found = list(quotes.outcomes(tmp_path))
    assert {each.quantity for each in found} >= {"wait", "run", "energy", "price"}
    assert asked == [read_rules(tmp_path / RULES)] != [PolicySettings()]
