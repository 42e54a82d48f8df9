"""Projections over arrays: jobs x node models x P-states, gaps and bridges across them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients, Uncertainty
from shared.models.bridge import bridge
from shared.models.ear import BLOCK, Metrics, project, project_metrics, project_onto_models
from shared.models.projection import Status

PSTATES_GHZ = (1.0, 1.5, 2.0, 3.0)


def coefficients(missing: tuple[tuple[int, int], ...] = (), **changes: object) -> Coefficients:
    """Pairs that agree with each other: any path between two P-states gives the same."""
    slope = np.divide.outer(np.arange(1.0, 5.0), np.arange(1.0, 5.0)).T
    zero = np.zeros_like(slope)
    available = np.ones_like(slope, dtype=np.bool_)
    for pair in missing:
        available[pair] = False
    names: dict[str, np.ndarray] = {"a": slope, "b": zero, "c": zero}
    names |= {"d": slope**0.1, "e": zero, "f": zero}
    values: dict[str, Any] = {
        name: np.where(available, matrix, 0.0) for name, matrix in names.items()
    }
    table = Coefficients("model", "v@1", "scale", PSTATES_GHZ, **values, available=available)
    return replace(table, **changes)  # type: ignore[arg-type]


def signature(freq_ghz: float = 3.0, **changes: object) -> Signature:
    known = Signature("app", "model", freq_ghz, 10.0, 400.0, 0.8, 3.0, 0.0, "scale")
    return replace(known, **changes)  # type: ignore[arg-type]


def one_by_one(table: Coefficients, signatures: list[Signature]) -> tuple[list[float], list[float]]:
    """Equations 1 to 3 as they are printed, without arrays."""
    times, powers = [], []
    for s in signatures:
        i = table.index_of(s.freq_ghz)
        for j, to_ghz in enumerate(table.pstates_ghz):
            cpi = table.d[i, j] * s.cpi + table.e[i, j] * s.tpi + table.f[i, j]
            times.append(s.time_s * (cpi / s.cpi) * (s.freq_ghz / to_ghz))
            powers.append(table.a[i, j] * s.power_w + table.b[i, j] * s.tpi + table.c[i, j])
    return times, powers


metric = st.floats(0.01, 1e3)
signatures = st.lists(
    st.builds(
        signature,
        st.sampled_from(PSTATES_GHZ),
        time_s=metric,
        power_w=st.floats(1, 1e3),
        cpi=metric,
        tpi=st.floats(0, 100),
    ),
    max_size=20,
)
matrix = st.lists(st.floats(-2, 2), min_size=16, max_size=16).map(
    lambda values: np.array(values).reshape(4, 4)
)


@given(signatures, matrix, matrix)
def test_arrays_say_what_the_equations_say_one_by_one(
    drawn: list[Signature], some: np.ndarray, other: np.ndarray
) -> None:
    table = coefficients(b=some, c=other, e=other * 0.01, f=some * 0.01)
    found = project(table, drawn)
    times, powers = (np.array(each).reshape(-1, 4) for each in one_by_one(table, drawn))
    exists = (times > 0) & (powers > 0)
    assert (found.available == exists).all()
    assert found.time_s[exists] == pytest.approx(times[exists], rel=1e-12)
    assert found.power_w[exists] == pytest.approx(powers[exists], rel=1e-12)
    assert found.energy_j[exists] == pytest.approx((times * powers)[exists], rel=1e-12)
    assert (found.status[~exists] == Status.NOT_ABOVE_ZERO).all()


@given(signatures)
def test_a_pstate_projects_to_itself_to_the_last_bit(drawn: list[Signature]) -> None:
    found = project(coefficients(), drawn)
    for row, s in enumerate(drawn):
        own = PSTATES_GHZ.index(s.freq_ghz)
        assert (found.time_s[row, own], found.power_w[row, own]) == (s.time_s, s.power_w)


def test_a_signature_projects_the_same_in_any_company() -> None:
    rng, count = np.random.default_rng(1), 2 * BLOCK + 3
    time_s, power_w, cpi, tpi = rng.uniform(1, 100, (4, count))
    everyone = Metrics(time_s, power_w, cpi, tpi, rng.integers(0, 4, count))
    table = coefficients(b=np.full((4, 4), 0.1), f=np.full((4, 4), 0.1))
    together = project_metrics(table, everyone)
    for row in (0, BLOCK - 1, BLOCK, count - 1):
        alone = project_metrics(table, everyone.block(slice(row, row + 1)))
        assert alone.time_s.tobytes() == together.time_s[row].tobytes()
        assert alone.power_w.tobytes() == together.power_w[row].tobytes()


def test_a_pair_that_was_never_measured_says_so() -> None:
    found = project(coefficients(missing=((3, 1),)), [signature()])
    assert found.available[0].tolist() == [True, False, True, True]
    assert Status(int(found.status[0, 1])) is Status.NEVER_MEASURED
    assert np.isnan([found.time_s[0, 1], found.power_w[0, 1], found.energy_j[0, 1]]).all()


def test_an_intermediate_pstate_leads_across_a_gap_only_when_asked() -> None:
    table = coefficients(missing=((3, 1), (3, 0)))
    found = project(table, [signature()], via_intermediate=True)
    direct = project(coefficients(), [signature()])
    statuses = [Status(code) for code in found.status[0].tolist()]
    assert statuses[:2] == [Status.VIA_INTERMEDIATE] * 2
    assert statuses[2:] == [Status.PROJECTED] * 2
    assert found.time_s == pytest.approx(direct.time_s)
    assert found.power_w == pytest.approx(direct.power_w)


def test_two_steps_give_what_the_equations_give_one_after_the_other() -> None:
    rng = np.random.default_rng(2)
    matrices = {name: rng.uniform(0.5, 1.5, (4, 4)) for name in "abcdef"}
    table = coefficients(missing=((3, 0), (3, 1)), **matrices)
    across = project(table, [signature()], via_intermediate=True)
    half_w = table.a[3, 2] * 400 + table.b[3, 2] * 3 + table.c[3, 2]
    half_cpi = table.d[3, 2] * 0.8 + table.e[3, 2] * 3 + table.f[3, 2]
    whole_w = table.a[2, 0] * half_w + table.b[2, 0] * 3 + table.c[2, 0]
    whole_cpi = table.d[2, 0] * half_cpi + table.e[2, 0] * 3 + table.f[2, 0]
    assert across.power_w[0, 0] == pytest.approx(whole_w)
    assert across.time_s[0, 0] == pytest.approx(10 * whole_cpi / 0.8 * 3)


def test_the_path_has_the_fewest_hops_then_the_least_variance_then_the_shortest_steps() -> None:
    table = coefficients(missing=((3, 0),))
    assert bridge(table).paths == {(3, 0): (3, 2, 0)}
    sd = np.zeros((4, 4))
    sd[3, 2] = 0.1
    doubtful = replace(table, uncertainty=Uncertainty(sd, np.zeros_like(sd)))
    assert bridge(doubtful).paths == {(3, 0): (3, 1, 0)}
    longer = coefficients(missing=((3, 0), (2, 0), (3, 1)))
    assert bridge(longer).paths[3, 0] == (3, 2, 1, 0)


def test_a_pstate_that_nothing_leads_to_stays_out() -> None:
    alone = tuple((i, 2) for i in range(4)) + tuple((2, j) for j in range(4))
    found = project(coefficients(missing=alone), [signature()], via_intermediate=True)
    left_out = [Status(code) is Status.NEVER_MEASURED for code in found.status[0].tolist()]
    assert left_out == [False, False, True, False]


def test_jobs_on_several_node_models_are_one_array() -> None:
    one, zero = np.ones((2, 2)), np.zeros((2, 2))
    matrices = (one, zero, zero, one, zero, zero)
    small = Coefficients("small", "v", "scale", (1.0, 2.0), *matrices, one.astype(np.bool_))
    tables = [coefficients(), small]
    metrics = [
        Metrics.from_signatures(tables[0], [signature(), None]),
        Metrics.from_signatures(small, [signature(2.0, node_model="small")] * 2),
    ]
    found = project_onto_models(tables, metrics)
    assert found.time_s.shape == (2, 2, 4)
    assert found.available[0].tolist() == [[True] * 4, [True, False, True, False]]
    assert found.status[1, 0].tolist() == [Status.NO_SIGNATURE] * 4
    assert found.status[0, 1, 1] == Status.NO_SUCH_PSTATE
    assert found.power_w[0, 0].tolist() == project(tables[0], [signature()]).power_w[0].tolist()
