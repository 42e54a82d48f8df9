import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.emulator.truth.interference import slowdown_ratio
from lab.emulator.truth.kernels import KERNELS, kernel_profile
from lab.emulator.truth.laws import behaviour
from lab.emulator.truth.noise import Noise
from lab.workloads.table1 import APPS, NODE_MODELS, PLATINUM_8168, PublishedNodeModel, profile

apps = st.sampled_from(list(APPS))
models = st.sampled_from(list(NODE_MODELS.values()))
demands_gbps = st.floats(0, 140)


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
