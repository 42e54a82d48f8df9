import csv
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.emulator.effects import EVERY, NONE, Effect
from lab.emulator.truth.hardware import power_law
from lab.emulator.truth.interference import slowdown_ratio
from lab.emulator.truth.kernels import KERNELS, kernel_profile
from lab.emulator.truth.laws import (
    Behaviour,
    Conditions,
    among_uneven,
    behaviour,
    instructions,
    time_by_clock,
)
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.traits import AppInput, AppTraits
from lab.workloads.table1 import (
    APPS,
    NODE_MODELS,
    PLATINUM_8168,
    AppProfile,
    PublishedNodeModel,
    profile,
)

apps = st.sampled_from(list(APPS))
models = st.sampled_from(list(NODE_MODELS.values()))
demands_gbps = st.floats(0, 140)
ratios = st.floats(0.7, 1.4)
some_effects = st.frozensets(st.sampled_from(list(Effect))).map(lambda some: some | {Effect.TIME})
conditions = st.builds(
    Conditions,
    st.builds(
        AppTraits,
        clock_share=st.floats(0.5, 1.5),
        vector_limit=st.floats(0.5, 1.0),
        turbo_ghz=st.floats(0, 1),
        waiting=st.floats(0, 1),
        imbalance=st.just(0.0),
    ),
    st.builds(AppInput, time=ratios, memory=ratios, core_w=ratios, cpi=ratios),
    st.floats(0, 0.5),
    some_effects,
)
# Of no application: any slope up to twice the clock's, any power that a node has beyond its memory.
profiles = st.builds(
    AppProfile,
    cpi=st.floats(0.3, 5),
    mem_gbps=st.floats(0, 140),
    time_s=st.floats(10, 200),
    power_w=st.floats(300, 520),
    slope_s_per_100mhz=st.floats(0, 10),
)


@given(apps, models)
def test_at_the_nominal_pstate_an_application_is_as_published(
    app_id: str, model: PublishedNodeModel
) -> None:
    published = profile(app_id, model.name)

    true = behaviour(published, model, model.nominal_ghz)

    assert true.time_s == pytest.approx(published.time_s)
    assert true.power_w == pytest.approx(published.power_w)
    assert true.cpi == pytest.approx(published.cpi)
    assert true.mem_gbps == pytest.approx(published.mem_gbps)


@given(apps, models)
def test_a_lower_pstate_takes_longer_and_draws_less_for_the_same_instructions_and_transactions(
    app_id: str, model: PublishedNodeModel
) -> None:
    runs = [behaviour(profile(app_id, model.name), model, f) for f in model.pstates_ghz]

    assert [run.time_s for run in runs] == sorted((run.time_s for run in runs), reverse=True)
    assert [run.power_w for run in runs] == sorted(run.power_w for run in runs)
    nominal = behaviour(profile(app_id, model.name), model, model.nominal_ghz)
    instructions = nominal.time_s * model.nominal_ghz / nominal.cpi
    for freq_ghz, run in zip(model.pstates_ghz, runs, strict=True):
        assert run.time_s * freq_ghz / run.cpi == pytest.approx(instructions)
        assert run.time_s * run.mem_gbps == pytest.approx(nominal.time_s * nominal.mem_gbps)
        assert run.tpi == pytest.approx(nominal.tpi)


@pytest.mark.parametrize("model", NODE_MODELS.values(), ids=NODE_MODELS)
def test_the_least_energy_pstate_of_stream_is_the_lowest_as_published(
    model: PublishedNodeModel,
) -> None:
    def energy_j(freq_ghz: float) -> float:
        run = behaviour(profile("STREAM", model.name), model, freq_ghz)
        return run.time_s * run.power_w

    assert min(model.pstates_ghz, key=energy_j) == 1.2


@given(profiles, models, conditions)
def test_no_run_takes_longer_than_its_clock_makes_it_nor_draws_more_at_a_lower_pstate(
    nominal: AppProfile, model: PublishedNodeModel, met: Conditions
) -> None:
    runs = [behaviour(nominal, model, f, met) for f in model.pstates_ghz]

    for freq_ghz, run in zip(model.pstates_ghz, runs, strict=True):
        assert run.time_s <= runs[-1].time_s * model.nominal_ghz / freq_ghz * (1 + 1e-12)
    for low, high in pairwise(runs):
        assert low.time_s >= high.time_s * (1 - 1e-12)
        assert low.power_w <= high.power_w * (1 + 1e-12)


@given(st.floats(0, 1), st.floats(1, 2))
def test_turbo_gains_no_more_than_its_clock(share: float, clock: float) -> None:
    assert 1 / clock <= time_by_clock(share, clock) * (1 + 1e-12) <= 1 + 1e-9


def test_without_any_effect_time_is_on_a_line_by_the_published_slope() -> None:
    dgemm = profile("DGEMM", "platinum-8168")

    slow = behaviour(dgemm, PLATINUM_8168, 1.2, Conditions(effects=NONE))

    assert slow.time_s == pytest.approx(dgemm.time_s + 15 * dgemm.slope_s_per_100mhz)
    core_w = dgemm.power_w - 110 - 0.9 * dgemm.mem_gbps
    expected_w = 110 + core_w * (1.2 / 2.7) ** 1.6 + 0.9 * slow.mem_gbps
    assert slow.power_w == pytest.approx(expected_w)


def test_wide_vector_instructions_hold_the_clock_so_that_higher_pstates_change_nothing() -> None:
    ep = profile("ep.D", "platinum-8168")
    wide = Conditions(AppTraits(vector_limit=2.4 / 2.7))

    runs = {f: behaviour(ep, PLATINUM_8168, f, wide) for f in PLATINUM_8168.pstates_ghz}

    assert runs[2.4] == runs[2.5] == runs[2.7]
    assert runs[2.3].time_s == pytest.approx(runs[2.7].time_s * 2.4 / 2.3)
    free = Conditions(AppTraits(vector_limit=2.4 / 2.7), effects=EVERY - {Effect.CLOCKS})
    assert behaviour(ep, PLATINUM_8168, 2.4, free).time_s > runs[2.4].time_s


def test_turbo_makes_the_highest_pstate_dearer_where_time_follows_the_clock_in_part() -> None:
    lu = profile("lu.C", "platinum-8168")
    turbo = Conditions(AppTraits(turbo_ghz=0.2))

    with_turbo, plain = (behaviour(lu, PLATINUM_8168, 2.6, each) for each in (turbo, Conditions()))

    assert with_turbo.time_s > plain.time_s
    assert with_turbo.power_w < plain.power_w


def test_an_application_that_waits_busily_executes_more_at_a_faster_clock() -> None:
    lu = profile("lu.C", "platinum-8168")
    waits = Conditions(AppTraits(waiting=0.5))

    low, high = (behaviour(lu, PLATINUM_8168, f, waits) for f in (1.2, 2.7))

    executed = [run.time_s * f / run.cpi for run, f in ((low, 1.2), (high, 2.7))]
    assert executed[0] < 0.93 * executed[1]
    assert low.tpi * executed[0] == pytest.approx(high.tpi * executed[1])
    assert low.time_s == behaviour(lu, PLATINUM_8168, 1.2).time_s
    assert instructions(0.2, 0.5) == pytest.approx(0.9)


def test_the_fullest_node_sets_the_pace_and_the_others_poll() -> None:
    alone = Behaviour(time_s=100, power_w=300, cpi=2.0, mem_gbps=50, tpi=0.01)

    job = among_uneven(alone, 0.1)

    assert job.time_s == pytest.approx(110)
    assert job.time_s * job.mem_gbps == pytest.approx(100 * 50)
    assert job.cpi < alone.cpi
    assert job.tpi < alone.tpi


@given(models, st.floats(100, 1500), st.floats(0, 500))
def test_power_bends_and_stays_below_what_a_node_can_draw(
    model: PublishedNodeModel, wanted_w: float, more_w: float
) -> None:
    law = power_law(model, EVERY)

    drawn_w = law.drawn_w(wanted_w)

    assert drawn_w <= min(wanted_w, law.idle_w + 1.05 * 410) + 1e-9
    assert drawn_w <= law.drawn_w(wanted_w + more_w)
    if drawn_w < law.idle_w + 380:
        assert law.wanted_w(drawn_w) == pytest.approx(wanted_w)


def test_times_and_powers_are_near_those_of_the_published_coefficients(data_dir: Path) -> None:
    """All eight applications at all P-states of both node models; theirs by equations 1 to 3."""
    inside = errors = 0
    squares = {"time": 0.0, "power": 0.0}
    with (data_dir / "eamc" / "apps.csv").open() as table:
        signatures = list(csv.DictReader(table))
    for module, model in zip(("normal", "normal2"), NODE_MODELS.values(), strict=True):
        with (data_dir / "eamc" / f"{module}_coefficients.csv").open() as table:
            from_nominal = [
                {name: float(value) for name, value in row.items()}
                for row in csv.DictReader(table)
                if float(row["from_ghz"]) == model.nominal_ghz and row["available"] == "1"
            ]
        for seen in (row for row in signatures if row["module"] == module):
            time_s, power_w, cpi, tpi = (
                float(seen[name]) for name in ("time_s", "dc_node_power_w", "cpi", "tpi")
            )
            nominal = [*APPS.values()][int(seen["app_id"]) - 1].on[model.name]
            least = {"published": (9e9, 0.0), "true": (9e9, 0.0)}
            for row in from_nominal:
                freq_ghz = row["to_ghz"]
                true = behaviour(nominal, model, freq_ghz)
                drawn_w = row["A"] * power_w + row["B"] * tpi + row["C"]
                stretch = (row["D"] * cpi + row["E"] * tpi + row["F"]) / cpi
                taken_s = time_s * stretch * model.nominal_ghz / freq_ghz
                squares["time"] += (true.time_s / taken_s - 1) ** 2
                squares["power"] += (true.power_w / drawn_w - 1) ** 2
                errors += 1
                both = (("published", taken_s * drawn_w), ("true", true.time_s * true.power_w))
                for name, energy_j in both:
                    least[name] = min(least[name], (energy_j, freq_ghz))
            ends = (model.lowest_ghz, model.nominal_ghz)
            assert (least["published"][1] in ends) == (least["true"][1] in ends)
            inside += least["true"][1] not in ends
    assert inside == 14
    assert (squares["time"] / errors) ** 0.5 < 0.05
    assert (squares["power"] / errors) ** 0.5 < 0.04


def test_transactions_per_instruction_are_bandwidth_over_cache_lines_and_instructions() -> None:
    stream = behaviour(profile("STREAM", "platinum-8168"), PLATINUM_8168, 2.7)

    assert stream.tpi == pytest.approx((138.87e9 / 64) / (48 * 2.7e9 / 4.46))


def test_kernels_are_no_applications_and_span_them() -> None:
    profiles = [kernel_profile(kernel, PLATINUM_8168) for kernel in KERNELS.values()]
    published = [app.on["platinum-8168"] for app in APPS.values()]

    assert not set(KERNELS) & set(APPS)
    assert min(p.cpi for p in profiles) < min(p.cpi for p in published)
    assert max(p.mem_gbps for p in profiles) >= max(p.mem_gbps for p in published)


@given(demands_gbps, demands_gbps, st.floats(0, 50))
def test_a_neighbour_never_speeds_a_job_up_nor_hurts_less_when_it_is_hungrier(
    own: float, other: float, more: float
) -> None:
    assert 1.0 <= slowdown_ratio(own, other) < 2.4
    assert slowdown_ratio(own, other + more) >= slowdown_ratio(own, other)
    assert slowdown_ratio(0.0, other) == 1.0


def test_pairs_of_applications_range_from_nothing_to_half_as_long() -> None:
    halves = [app.on["platinum-8168"].mem_gbps / 2 for app in APPS.values()]
    ratios = [slowdown_ratio(own, other) for own in halves for other in halves]

    assert min(ratios) < 1.001
    assert 1.4 < max(ratios) < 1.6
    assert 1.02 < sorted(ratios)[len(ratios) // 2] < 1.1


@given(st.integers(0, 2**32), st.permutations(["p1-0000", "p1-0001", "p2-0000"]))
def test_noise_does_not_depend_on_the_order_in_which_it_is_drawn(
    seed: int, order: list[str]
) -> None:
    noise = Noise(seed)

    drawn = {node: noise.node_power(node) for node in order}

    assert drawn == {node: Noise(seed).node_power(node) for node in sorted(order)}


def test_nodes_of_one_model_differ_by_one_to_two_percent() -> None:
    factors = [Noise(1).node_power(f"p1-{index:04d}") for index in range(512)]
    mean = sum(factors) / len(factors)
    sigma = (sum((f - mean) ** 2 for f in factors) / len(factors)) ** 0.5

    assert 0.01 < sigma < 0.02


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        Noise(-1)
