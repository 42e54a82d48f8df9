"""What each field of what billing declares must be."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.accounts_pb2 import AllocationDeclared, PeriodClosed, WhenEmpty
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import Payer, PriceModel, TariffDeclared
from google.protobuf.message import Message

from shared.catalogue.field_checks import (
    Check,
    each,
    each_of_any,
    fields,
    one_of,
    one_of_or_none,
    quantity,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.catalogue.payloads.tariffs import allocated_su, require_finish, require_past, tariff_of

_POINT: Final = fields({"solo_share": text, "factor": text})

_RATE: Final = fields(
    {
        "resource": text,
        "su": text,
        **dict.fromkeys(("cluster", "node_model", "partition", "qos"), text_or_empty),
    }
)

BILLING: Final[Mapping[type[Message], Check]] = {
    TariffDeclared: fields(
        {
            "name": text,
            "version": quantity("attempt"),
            "from_us": time_us,
            "until_us": time_us_or_never,
            "model": one_of(PriceModel.items()),
            "points": each_of_any("points", _POINT),
            "rates": each("rates", _RATE),
            "hour_factors": each_of_any("hour_factors", text),
            "idle_w_per_core": text_or_empty,
            "node_failure": one_of_or_none(Payer.items()),
            "requeue": one_of_or_none(Payer.items()),
            "surcharge_share": text_or_empty,
            "surcharge_most_su": text_or_empty,
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        tariff_of,
    ),
    AllocationDeclared: fields(
        {
            "account": text,
            "allocated_su": text,
            "when_empty": one_of(WhenEmpty.items()),
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        allocated_su,
    ),
    PeriodClosed: fields(
        {"until_us": time_us, "reason": text_or_empty, "closed_at_us": time_us}, require_past
    ),
    RepriceAsked: fields(
        {
            "tariff": text,
            "tariff_version": quantity("attempt"),
            "reason": text_or_empty,
            "asked_at_us": time_us,
        },
        require_finish,
    ),
}
