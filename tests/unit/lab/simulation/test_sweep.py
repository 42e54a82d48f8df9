from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.simulation.jobs import WorkloadSpec
from lab.simulation.metrics import summarise
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.steps import Steps, idle_power_w, job_power_w
from lab.simulation.sweep import Case, Setup, combinations, play_case, result_of, sweep
from lab.simulation.system import SimulatedCluster, System
from lab.simulation.units import assign_units
from shared.replay.played import Played
from shared.scheduling.pool import Discipline
from tests.unit.lab.simulation.setups import models, setup

SETUP = setup(nodes=128)
SMALL = WorkloadSpec(jobs=80)


@pytest.mark.parametrize("policy", SimulatedPolicy)
def test_every_policy_finishes_all_jobs_and_gives_no_node_out_twice(
    policy: SimulatedPolicy,
) -> None:
    outcome = play_case(SETUP, Case(policy, SMALL))
    played, schedule = outcome.played, outcome.played.schedule
    assert len(outcome.job_id) == 80
    assert (schedule.start_s >= played.workload.submit_s).all()
    for cluster in (0, 1):
        here = schedule.cluster == cluster
        start_s, end_s = schedule.start_s[here], schedule.end_s[here]
        assign_units(128, played.used_units[here], start_s, end_s)


@pytest.mark.parametrize("policy", [SimulatedPolicy.BASE, SimulatedPolicy.PRIORITY_INC])
def test_a_discipline_is_chosen_beside_how_clusters_are_chosen(
    policy: SimulatedPolicy,
) -> None:
    own, easy, slurm = (
        play_case(SETUP, Case(policy, SMALL, discipline=each)).played
        for each in (None, Discipline.EASY, Discipline.SLURM)
    )
    assert (own.schedule.start_s == easy.schedule.start_s).all()
    assert (own.schedule.start_s != slurm.schedule.start_s).any()
    assert (own.workload.limit_s == slurm.workload.limit_s).all()
    for cluster in (0, 1):
        here = slurm.schedule.cluster == cluster
        schedule = slurm.schedule
        assign_units(128, slurm.used_units[here], schedule.start_s[here], schedule.end_s[here])


def test_a_discipline_is_of_eamcs_policies_alone_and_slurms_knows_one_mode() -> None:
    with pytest.raises(ValueError, match="no use to look-ahead"):
        Case(SimulatedPolicy.LOOK_AHEAD, discipline=Discipline.SLURM)
    with pytest.raises(ValueError, match="no use under the discipline slurm"):
        Case(SimulatedPolicy.BASE, discipline=Discipline.SLURM, cap_slowdown=2.0)


def test_a_case_is_the_same_every_time_and_another_seed_or_policy_to_something_else() -> None:
    case = Case(SimulatedPolicy.EASY, SMALL)
    least = replace(case, policy=SimulatedPolicy.MIN_ENERGY)
    first, again, other, saving = (
        result_of(SETUP, each) for each in (case, case, replace(case, seed=2), least)
    )
    assert first == again
    assert first.summary != other.summary
    assert saving.summary.busy_energy_j < 0.9 * first.summary.busy_energy_j
    cases = (case, least, replace(least, t_weight=1.5))
    apps = [play_case(SETUP, each).played.traits for each in cases]
    assert all(np.array_equal(each.app, apps[0].app) for each in apps if each and apps[0])


def test_a_sweep_of_several_processes_gives_what_one_gives_in_the_order_of_the_cases() -> None:
    cases = combinations([SimulatedPolicy.BASE, SimulatedPolicy.EASY], [1.0], [SMALL], [1, 2])
    assert list(sweep(SETUP, cases, 2)) == [result_of(SETUP, case) for case in cases]


def test_a_policy_that_has_no_weight_is_simulated_with_one_weight() -> None:
    policies = [SimulatedPolicy.REORDER, SimulatedPolicy.MIN_ENERGY]
    cases = combinations(policies, [1.0, 1.5], [SMALL], [1, 2], kill_at_limit=False)
    assert [(case.policy, case.t_weight, case.seed) for case in cases] == [
        ("reorder", 1.0, 1),
        ("reorder", 1.0, 2),
        ("reorder", 1.5, 1),
        ("reorder", 1.5, 2),
        ("min-energy", 1.0, 1),
        ("min-energy", 1.0, 2),
    ]
    assert not any(case.kill_at_limit for case in cases)
    assert [case.label for case in cases[::2]] == ["reorder w=1", "reorder w=1.5", "min-energy"]


def test_under_a_cap_jobs_start_at_a_lower_p_state_as_far_as_they_may_take_longer() -> None:
    """At 1 GHz a node draws 0.3 of its power; "cpu" then takes twice as long, "mem" no longer."""
    changed = {"cap_w": 128 * 100.0}
    clusters = tuple(each.model_copy(update=changed) for each in SETUP.system.clusters)
    capped = replace(SETUP, system=System(clusters))
    found = {
        slowdown: play_case(capped, Case(SimulatedPolicy.EASY, SMALL, cap_slowdown=slowdown))
        for slowdown in (1.0, 1.5, 2.0)
    }
    slowed = {}
    for slowdown, outcome in found.items():
        played = outcome.played
        assert played.traits is not None
        ghz, app = played.chosen(played.traits.freq_ghz), played.traits.app
        slowed[slowdown] = {played.traits.apps[one] for one in app[ghz == 1.0]}
        for cluster in (0, 1):
            assert job_power_w(played, cluster).value.max() <= 128 * 100.0 + 1e-6
    assert slowed == {1.0: set(), 1.5: {"mem"}, 2.0: {"cpu", "mem"}}
    assert found[2.0].left_out <= found[1.0].left_out
    played, own = found[2.0].played, found[1.0].played
    assert played.energy_j.sum() < own.energy_j.sum()


@pytest.mark.parametrize("policy", [SimulatedPolicy.EASY, SimulatedPolicy.LOOK_AHEAD])
@pytest.mark.parametrize("counts", [True, False])
def test_jobs_and_what_idles_keep_to_a_cap_together(policy: SimulatedPolicy, counts: bool) -> None:
    """Of 300 W a node 120 W are those of one that idles, which count or come on top of the cap."""
    changed = {"cap_w": 128 * (170.0 if counts else 50.0), "idle_power_w": 120.0}
    clusters = tuple(each.model_copy(update=changed) for each in SETUP.system.clusters)
    capped = replace(SETUP, system=System(clusters, cap_counts_idle=counts))
    played = play_case(capped, Case(policy, WorkloadSpec(jobs=150))).played
    assert played.fleet.cap_w.tolist() == [128 * 170.0] * 2
    for cluster in (0, 1):
        both = Steps.sum_of([job_power_w(played, cluster), idle_power_w(played, cluster)])
        assert 0.8 * 128 * 170.0 < both.value.max() <= 128 * 170.0 + 1e-6


# Three clusters, of which two are at one site; a node of "a" and "c" idles at 60 W.
IDLE_W = {"a": 60.0, "b": 0.0, "c": 60.0}
ABC = tuple(
    SimulatedCluster(name=name, nodes=64, module=module, idle_power_w=IDLE_W[name], site=site)
    for name, module, site in (("a", "p1", "north"), ("b", "p2", "south"), ("c", "p1", "north"))
)
NORTH_W, ALL_W = 64 * 120.0, 64 * 120.0  # what idles
FEW = WorkloadSpec(jobs=60, speed=20.0)
KEEPERS = [policy for policy in SimulatedPolicy if policy.keeps_shared_caps]


def of_three(system: System) -> Setup:
    return Setup(system, (models("p1"), models("p2"), models("p1")))


def highest_w(played: Played, names: str, *, counts_idle: bool) -> float:
    """The highest draw of clusters together at any start: jobs, and units that nobody uses."""
    schedule, highest = played.schedule, 0.0
    for now_s in schedule.start_s:
        drawn_w = 0.0
        for number, name in enumerate("abc"):
            if name not in names:
                continue
            runs = (schedule.cluster == number) & (schedule.start_s <= now_s)
            runs &= now_s < schedule.end_s
            idle_units = (64 if counts_idle else 0) - int(played.used_units[runs].sum())
            drawn_w += float(played.power_w[runs].sum()) + idle_units * IDLE_W[name]
        highest = max(highest, drawn_w)
    return highest


@pytest.mark.parametrize("policy", ["conservative", "slurm", "look-ahead"])
def test_no_slower_mode_is_asked_of_who_takes_none(policy: str) -> None:
    with pytest.raises(ValueError, match=f"cap_slowdown is of no use to {policy}"):
        Case(SimulatedPolicy(policy), cap_slowdown=2.0)


@settings(max_examples=3, deadline=None)
@given(
    policy=st.sampled_from(KEEPERS),
    seed=st.integers(1, 1000),
    beyond_w=st.tuples(*[st.sampled_from([32 * 300.0, 48 * 300.0, 96 * 300.0])] * 2),
    slowdown=st.sampled_from([1.0, 2.0]),
    counts=st.booleans(),
)
@example(SimulatedPolicy.EASY, 1, (32 * 300.0, 48 * 300.0), 1.0, True)
@example(SimulatedPolicy.PRIORITY_INC_V, 2, (32 * 300.0, 32 * 300.0), 2.0, True)
@example(SimulatedPolicy.LOOK_AHEAD, 3, (48 * 300.0, 48 * 300.0), 1.0, False)
def test_clusters_under_one_cap_never_draw_more_together(
    policy: SimulatedPolicy, seed: int, beyond_w: tuple[float, float], slowdown: float, counts: bool
) -> None:
    """The draws are added up here at each start: between two of them they only fall."""
    idle_w = (NORTH_W, ALL_W) if counts else (0.0, 0.0)
    caps_w = {"north": idle_w[0] + beyond_w[0], "region": idle_w[1] + beyond_w[1]}
    system = System(ABC, cap_counts_idle=counts, shared_cap_w=caps_w)
    case = Case(policy, FEW, seed, cap_slowdown=slowdown if policy.takes_slower_modes else 1.0)
    played = play_case(of_three(system), case).played
    highest = (highest_w(played, "ac", counts_idle=counts), caps_w["north"])
    of_all = (highest_w(played, "abc", counts_idle=counts), caps_w["region"])
    assert highest[0] <= highest[1] + 0.1
    assert of_all[0] <= of_all[1] + 0.1
    summary = summarise(played)
    assert summary.above_cap_s == 0
    assert summary.highest_of_cap == pytest.approx(max(d / c for d, c in (highest, of_all)))


@pytest.mark.parametrize("policy", KEEPERS)
def test_a_cap_over_several_clusters_that_nobody_reaches_changes_nothing(
    policy: SimulatedPolicy,
) -> None:
    found = []
    for caps in ({}, {"region": inf}, {"north": 1e9, "region": 1e9}, {"region": ALL_W + 8e3}):
        case = Case(policy, FEW)
        schedule = play_case(of_three(System(ABC, shared_cap_w=caps)), case).played.schedule
        found.append([e.tolist() for e in (schedule.cluster, schedule.start_s, schedule.end_s)])
    free, endless, lax, tight = found
    assert endless == lax == free
    assert tight != free


@pytest.mark.parametrize("policy", KEEPERS)
def test_a_cap_of_the_region_of_one_cluster_is_that_of_the_cluster(policy: SimulatedPolicy) -> None:
    one, idle_w = ABC[0], 64 * 60.0
    found = []
    for system in (
        System((one.model_copy(update={"cap_w": idle_w + 9e3}),)),
        System((one,), shared_cap_w={"region": idle_w + 9e3}),
    ):
        outcome = play_case(Setup(system, (models("p1"),)), Case(policy, FEW))
        found.append((outcome.played.schedule.start_s.tolist(), outcome.left_out))
    assert found[0] == found[1]


@pytest.mark.parametrize("policy", sorted(set(SimulatedPolicy) - set(KEEPERS)))
def test_a_policy_that_keeps_no_such_cap_is_refused_before_it_plays(
    policy: SimulatedPolicy,
) -> None:
    system = System(ABC, shared_cap_w={"region": 1e6})
    with pytest.raises(UnusableError, match=f"policy {policy} keeps caps of single clusters"):
        play_case(of_three(system), Case(policy, WorkloadSpec("no such file")))
