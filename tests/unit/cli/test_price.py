"""`coplace price explain`: a charge is made again from stored shutters."""

from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message

from cli.price import explanation, interval_rows, lines, part_rows, shutter_rows
from coplace_client.errors import UnusableError
from services.pricing.explanation import co_run_of
from shared.catalogue.event import Event
from shared.pricing.charge import AttemptEnd, ChargeRevision, charge_message, usage_of
from shared.pricing.model import evidence

JOB = "north/alpha/4711/1767225600"
T0_US = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
FINISHED = JobFinished(
    job_id=JOB,
    attempt=1,
    user="ada",
    account="physics",
    cluster="alpha",
    nodes=1,
    cores_per_node=36,
    started_at_us=T0_US,
    ended_at_us=T0_US + HOUR_US,
)
SHUTTERS = ShuttersMeasured(
    job_id=JOB,
    attempt=1,
    co_runner_job_id="north/alpha/4712/1767225660",
    began_at_us=T0_US,
    ended_at_us=T0_US + HOUR_US // 2,
    shutters=[
        Shutter(ipc_before=1.0, ipc_during=1.25, ipc_after=1.0),
        Shutter(ipc_before=1.0, ipc_during=0.9, ipc_after=1.0),
    ],
)


def charge(revision: int, *measured: ShuttersMeasured) -> ChargeMade:
    rows = evidence(map(co_run_of, measured), usage_of(FINISHED))
    return charge_message(
        AttemptEnd(FINISHED), ChargeRevision(revision, T0_US + 2 * HOUR_US), Decimal("0.001"), rows
    )


def event(name: str, payload: Message) -> Event:
    return Event(name, "north/alpha", T0_US, JOB, payload)


def test_the_last_charge_is_made_again_from_its_shutters_and_a_copy_changes_nothing() -> None:
    told = [
        event("1", FINISHED),
        event("2", SHUTTERS),
        event("2", SHUTTERS),
        event("3", charge(1)),
        event("4", charge(2, SHUTTERS)),
    ]
    found = explanation(told, JOB, 0)
    assert found.is_reproduced
    text = "\n".join(lines(found))
    assert "revision 2" in text
    assert "L = 0.001 SU a core and second" in text
    assert "129.600000 SU" in text
    assert "the same to the last digit" in text
    [row] = interval_rows(found)
    assert (row["slowdown"], row["used"], row["filtered"]) == ("1.250", 1, 1)
    assert [each["is"] for each in shutter_rows(found)] == ["used", "filtered"]


def seen(ipc_during: float, **changes: Any) -> ShuttersMeasured:
    """What is measured where a neighbour slows the job down by so much."""
    found = ShuttersMeasured(
        job_id=JOB,
        attempt=1,
        co_runner_job_id=SHUTTERS.co_runner_job_id,
        began_at_us=T0_US,
        ended_at_us=T0_US + HOUR_US // 2,
        shutters=[Shutter(ipc_before=1.0, ipc_during=ipc_during, ipc_after=1.0)],
    )
    found.MergeFrom(ShuttersMeasured(**changes))
    return found


@pytest.mark.parametrize(
    "charged",
    [
        [seen(1.1)],
        [seen(1.6)],
        [seen(1.25), seen(1.6, began_at_us=T0_US + HOUR_US // 2, ended_at_us=T0_US + HOUR_US)],
        [seen(1.25, ended_at_us=T0_US + HOUR_US)],
    ],
)
def test_a_charge_that_shutters_do_not_give_is_not_reproduced(
    charged: list[ShuttersMeasured],
) -> None:
    told = [event("1", FINISHED), event("2", seen(1.25))]
    assert explanation([*told, event("3", charge(1, seen(1.25)))], JOB, 1).is_reproduced
    found = explanation([*told, event("3", charge(1, *charged))], JOB, 1)
    assert not found.is_reproduced
    assert found.again.price_su != found.charge.price_su


def test_a_pair_that_pricing_did_not_believe_is_shown_as_left_out() -> None:
    told = [event("1", FINISHED), event("2", SHUTTERS), event("3", charge(1))]
    found = explanation(told, JOB, 1)
    assert found.is_reproduced
    assert list(interval_rows(found)) == []
    text = "\n".join(lines(found))
    assert f"left out: what was measured beside {SHUTTERS.co_runner_job_id}," in text


def test_a_charge_is_made_again_where_its_neighbour_ended_before_the_shutters_say_so() -> None:
    """An agent's clock is five seconds ahead."""
    until_us = T0_US + HOUR_US // 2 - 5_000_000
    neighbour = JobFinished(
        job_id=SHUTTERS.co_runner_job_id,
        attempt=1,
        cluster="alpha",
        started_at_us=T0_US,
        ended_at_us=until_us,
    )
    told = [event("1", FINISHED), event("2", SHUTTERS), event("4", neighbour)]
    cut = ShuttersMeasured()
    cut.CopyFrom(SHUTTERS)
    cut.ended_at_us = until_us
    assert explanation([*told, event("3", charge(1, cut))], JOB, 1).is_reproduced
    assert not explanation([*told, event("3", charge(1, SHUTTERS))], JOB, 1).is_reproduced


def test_what_was_not_charged_or_is_no_longer_kept_is_reported() -> None:
    with pytest.raises(UnusableError, match="was not charged"):
        explanation([event("1", FINISHED)], JOB, 0)
    with pytest.raises(UnusableError, match="was not charged"):
        explanation([event("3", charge(1))], JOB, 2)
    with pytest.raises(UnusableError, match="no longer kept"):
        explanation([event("3", charge(1))], JOB, 0)


def test_who_slowed_a_job_down_is_listed_with_what_that_costs() -> None:
    part, whole = part_rows(charge(1, SHUTTERS))
    assert part["slowed down by"] == SHUTTERS.co_runner_job_id
    assert part["time lost s"] == whole["time lost s"] == "360.000000"
    made = charge(1, SHUTTERS)
    discount = Decimal(made.state_of_practice_su) - Decimal(made.price_su)
    assert part["discount SU"] == whole["discount SU"] == str(discount)
    assert not list(part_rows(charge(1)))
