"""Of the topic of charges the charges alone are passed on."""

from types import SimpleNamespace
from typing import Any

from coplace.v1.pricing_pb2 import ChargeMade

from shared.clients.charges import charge_in

CHARGE = ChargeMade(job_id="j", attempt=1)


def record(value: bytes | None, of: str = "coplace.v1.ChargeMade") -> Any:
    headers = [("ce_type", of.encode())]
    return SimpleNamespace(value=value, headers=headers, partition=0, offset=7)


def test_what_is_no_charge_is_left_out() -> None:
    assert charge_in(record(CHARGE.SerializeToString())) == CHARGE
    assert charge_in(record(b"", "coplace.v1.RoundEnded")) is None
    assert charge_in(record(None)) is None
    assert charge_in(record(b"\xff")) is None
