"""The results of a record in figures."""

from dataclasses import replace

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import UnusableError
from lab.simulation.metrics import summarise
from shared.domain.energy_tariff import Tariff
from shared.replay.inputs import RecordedInputs
from shared.replay.region import Setting
from shared.replay.results import Fidelity, played_of
from shared.replay.truth import Truth
from shared.replay.what_if import as_recorded
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US
from tests.unit.shared.replay.records import NODE_W, recorded, starts

S = 1_000_000


def one_job() -> tuple[RecordedInputs, list[PlacementDecided], JobFinished]:
    """A record of a job of 100 s, its decisions, and its end."""
    inputs, decisions = recorded([region.submitted("j")], {"j": 100.0})
    (finished,) = as_recorded(inputs, decisions).finished
    return inputs, decisions, finished


def test_the_figures_of_a_record_are_those_of_its_ends() -> None:
    jobs = [
        region.submitted("whole", nodes=4),
        region.submitted("part", T0_US + 10 * S, cores_per_unit=12, nodes=2),
        region.submitted("endless"),
    ]
    inputs, decisions = recorded(jobs, {"whole": 100.0, "part": 50.0})
    truth = Truth.from_record(inputs, decisions, Setting())
    course = as_recorded(inputs, decisions)
    played, job_id = played_of(truth, course.finished, decisions, {})
    assert job_id.tolist() == ["whole", "part"]
    summary = summarise(played)
    assert summary.jobs == 2
    assert summary.wait_s.mean == pytest.approx((30 + 20) / 2)
    assert summary.sum_runtime_s == pytest.approx(150)
    nodes = {d.job_id: len(d.node_indices) for d in starts(decisions).values()}
    drawn = NODE_W * (nodes["whole"] * 100 + nodes["part"] * 50)
    assert summary.busy_energy_j == pytest.approx(drawn)
    units = dict(zip(played.fleet.names, played.fleet.units.tolist(), strict=True))
    used = dict(zip(job_id.tolist(), played.used_units.tolist(), strict=True))
    on = starts(decisions)["whole"].cluster
    assert used["whole"] == units[on]
    assert course.unfinished == 1


def test_energy_costs_what_the_tariffs_say_and_tariffs_of_others_are_refused() -> None:
    inputs, decisions, end = one_job()
    truth, finished = Truth.from_record(inputs, decisions, Setting()), [end]
    tariffs = {"p1": Tariff((0.5,)), "p2": Tariff((0.5,))}
    played, _ = played_of(truth, finished, decisions, tariffs)
    assert summarise(played).energy_cost == pytest.approx(0.5 * NODE_W * 100 / 3.6e6)
    with pytest.raises(UnusableError, match="tariffs are for"):
        played_of(truth, finished, decisions, {"p1": Tariff((1.0,))})


def test_without_meters_energy_is_as_predicted() -> None:
    inputs, decisions, finished = one_job()
    truth = Truth.from_record(inputs, decisions, Setting())
    finished.energy_j = 0.0
    played, _ = played_of(
        Truth.from_record(inputs, decisions, Setting()), [finished], decisions, {}
    )
    run = truth.runs["j"]
    node_w = truth.hindsight.node_w(run.job, run.allotment.cluster, run.allotment.freq_ghz)
    assert played.power_w.tolist() == [pytest.approx(node_w)]


def test_fidelity_counts_what_is_equal_whatever_its_order() -> None:
    jobs = [region.submitted(f"j{n}", nodes=3) for n in range(5)]
    inputs, decisions = recorded(jobs, {f"j{n}": 100.0 for n in range(5)})
    whole = Fidelity.to_decisions(decisions, decisions[::-1])
    assert whole == Fidelity(5, 5, len(decisions), len(decisions))
    assert whole.is_whole
    other = [PlacementDecided.FromString(d.SerializeToString()) for d in decisions]
    starts(other)["j2"].node_indices[0] += 1
    assert Fidelity.to_decisions(decisions, other) == replace(
        whole, equal_starts=4, equal_decisions=len(decisions) - 1
    )
    truth = Truth.from_record(inputs, decisions, Setting())
    assert Fidelity.to_reports(truth, decisions) == Fidelity(5, 5)
    assert Fidelity.to_reports(truth, other) == Fidelity(5, 4)
