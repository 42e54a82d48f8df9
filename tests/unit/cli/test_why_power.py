"""`coplace why JOB --power`: by which predictors and past jobs a figure was made."""

import math
from collections.abc import Iterable

import pytest
from coplace.v1.control_pb2 import RoundEnded

from cli.why_power import lines
from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from tests.unit.shared.placement import region
from tests.unit.shared.placement.test_chosen_trees import chosen
from tests.unit.shared.placement.test_power_history import history


def ended(number: int) -> Event:
    return region.event(f"round/{number}", RoundEnded(round=number, ended_at_us=region.T0_US))


def told(events: Iterable[Event], job_id: str = "a") -> list[str]:
    return list(lines(events, job_id))


def test_a_figure_is_reported_with_its_predictors_and_the_past_jobs_of_each_shape() -> None:
    early, late = history(9), history(12)[9:]
    came = region.submitted("a", app_id="new")
    found = told([*region.models(), *early, came, ended(0), *late, ended(1)])
    assert found[0] == "a of ada, application new"
    [p1] = [at for at, line in enumerate(found) if line.startswith("p1 at 2.7 GHz: ")]
    assert found[p1].endswith(" W is exceeded by 10 % of jobs")
    shares = [float(line.split()[0]) for line in found[p1 + 1 : p1 + 6]]
    assert shares == sorted(shares, reverse=True)
    [same] = [line for line in found if line.startswith("  same user, application, size, walltime")]
    assert same.split(": ")[1].startswith("j9 ")
    assert "j1 " not in same
    assert "j10" not in "".join(found)
    assert found[-1] == "p2 at 3.1 GHz: 333.0 W a node, what gold-6254 draws in the mean"


def test_features_that_moved_the_trees_are_reported() -> None:
    came = region.submitted("a", app_id="new")
    found = told([*region.models(), *history(9), chosen(1), came, ended(0)])
    [at] = [n for n, line in enumerate(found) if "the extra trees of power-trees@80:" in line]
    factors = [float(line.split()[1]) for line in found[at + 1 : at + 6]]
    assert all(factor > 0 for factor in factors)
    assert abs(math.log(factors[0])) == max(abs(math.log(factor)) for factor in factors)


def test_where_a_signature_is_known_it_is_said_that_placement_goes_by_it() -> None:
    came = region.submitted("a", app_id=region.APPS[0])
    found = told([*region.models(), came, ended(0)])
    assert "p1 at 2.7 GHz: placement goes by the signature of app-0; similar jobs say" in found


def test_a_job_that_never_came_is_reported_in_one_line() -> None:
    with pytest.raises(UnusableError, match="no job 'b'"):
        told([*region.models(), ended(0)], "b")
