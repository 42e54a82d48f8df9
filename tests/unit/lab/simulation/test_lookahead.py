"""What look-ahead may choose from in the simulator, and that its choices are played as they are."""

from dataclasses import replace

import numpy as np
import pytest

from lab.simulation.epm import Epm
from lab.simulation.jobs import WorkloadSpec
from lab.simulation.lookahead import AS_TUNED, Ahead
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.sweep import Case, Outcome, play_case
from shared.eamc.frequency import worth_choosing
from shared.scheduling.lookahead import Prices
from tests.unit.lab.simulation.setups import setup

SETUP = setup(nodes=128)
CASE = Case(SimulatedPolicy.LOOK_AHEAD, WorkloadSpec(jobs=150))
USUAL = replace(CASE, policy=SimulatedPolicy.PRIORITY_INC_V)


def priced(prices: Prices, budget: int = 1) -> Outcome:
    bounds = replace(AS_TUNED.bounds, budget=budget)
    return play_case(SETUP, replace(CASE, ahead=Ahead(prices, bounds)))


def test_without_proposals_it_plays_priority_inc_v() -> None:
    ahead, usual = priced(Prices(), budget=0).played, play_case(SETUP, USUAL).played
    assert np.array_equal(ahead.schedule.cluster, usual.schedule.cluster)
    assert ahead.schedule.start_s == pytest.approx(usual.schedule.start_s)
    assert ahead.schedule.end_s == pytest.approx(usual.schedule.end_s)
    assert ahead.energy_j == pytest.approx(usual.energy_j)


def test_where_time_is_worth_nothing_jobs_take_the_least_energy() -> None:
    played = priced(Prices(response_per_h=1e-6, unit_per_h=0.0)).played
    usual = play_case(SETUP, USUAL).played
    assert played.energy_j.sum() < usual.energy_j.sum()
    assert played.runtime_s.sum() > usual.runtime_s.sum()


def test_time_and_energy_are_those_of_the_p_state_that_each_job_ran_at() -> None:
    played = priced(Prices(response_per_h=100.0)).played
    assert played.traits is not None
    epm, where = Epm.from_models(SETUP.models), played.schedule.cluster
    freq_ghz = played.chosen(played.traits.freq_ghz)
    for app in set(played.traits.app.tolist()):
        for cluster, projection in enumerate(epm.projections):
            here = (played.traits.app == app) & (where == cluster)
            at = [projection.pstates_ghz.index(f) for f in freq_ghz[here]]
            node_w = played.power_w[here] / played.used_units[here]
            assert node_w == pytest.approx(projection.power_w[app][at])


def test_every_p_state_that_costs_least_at_some_price_of_time_is_offered() -> None:
    epm = Epm.from_models(SETUP.models)
    for projection in epm.projections:
        for app in range(len(epm.apps)):
            time_s = projection.time_s[app]
            energy_j = time_s * projection.power_w[app]
            prices = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 2000)])
            cost = energy_j[:, np.newaxis] + prices * time_s[:, np.newaxis]
            known = np.where(projection.available[app][:, np.newaxis], cost, np.inf)
            assert set(known.argmin(axis=0).tolist()) <= set(worth_choosing(projection, app))
