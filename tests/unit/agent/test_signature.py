"""The signature of a stretch that a job had its node alone."""

import pytest

from coplace_agent.signature import JobCounts, signature
from coplace_client.signature import Signature

_BEGIN = JobCounts(100.0, 1_000.0, 0.0, 0.0, 0.0, 0.0, None)
# Sixteen cores for ten seconds at 2.4 GHz: 1.25 cycles an instruction, one miss in a hundred.
_END = JobCounts(110.0, 4_500.0, 307.2e9, 384e9, 3.072e9, 160.0, None)


def found(begin: JobCounts, end: JobCounts) -> Signature | None:
    return signature("hpcg", "skylake", begin, end)


def test_it_is_the_means_of_the_stretch() -> None:
    measured = found(_BEGIN, _END)
    assert measured is not None
    assert (measured.app_id, measured.node_model) == ("hpcg", "skylake")
    assert measured.tpi_scale == "llc-misses"
    assert (measured.freq_ghz, measured.power_w, measured.cpi) == (2.4, 350.0, 1.25)
    assert measured.time_s == pytest.approx(10 / 307.2)
    assert measured.tpi == pytest.approx(0.01)
    assert measured.mem_gbps == pytest.approx(19.6608)


def test_an_iteration_is_a_heartbeat_where_the_application_counts_them() -> None:
    begin, end = _BEGIN._replace(beats=50.0), _END._replace(beats=90.0)
    measured = found(begin, end)
    assert measured is not None
    assert measured.time_s == 0.25


@pytest.mark.parametrize(
    "end",
    [
        _END._replace(instructions=0.0),
        _END._replace(cycles=0.0),
        _END._replace(cpu_s=0.0),
        _END._replace(at_s=100.0),
        _END._replace(energy_j=1_000.0),
        _END._replace(cycles=384e12),
    ],
)
def test_what_no_processor_does_has_none(end: JobCounts) -> None:
    assert found(_BEGIN, end) is None
