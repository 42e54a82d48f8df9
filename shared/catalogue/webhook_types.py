"""The types of what webhooks post, and what a body is. Pure.

A body is a JSON object of `type`, `timestamp` and `data`: a document as REST answers it.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
from coplace.v1.history_service_pb2 import Run
from coplace.v1.webhook_service_pb2 import Alert, BudgetReached, WebhookTested
from google.protobuf.message import Message

from shared.catalogue.answer_json import answer_json
from shared.catalogue.codec import format_time

JOB_STARTED: Final = "job.started"
JOB_ENDED: Final = "job.ended"
JOB_REJECTED: Final = "job.rejected"
BUDGET_REACHED: Final = "budget.reached"
ALERT: Final = "alert"
TEST: Final = "webhook.test"


class WebhookType(NamedTuple):
    """What the data of a type are, and when it is posted, in words."""

    data: type[Message]
    when: str


TYPES: Final[Mapping[str, WebhookType]] = {
    JOB_STARTED: WebhookType(Run, "A resource manager started a job."),
    JOB_ENDED: WebhookType(Run, "A job ended, however it did."),
    JOB_REJECTED: WebhookType(Run, "A job fits on no cluster."),
    BUDGET_REACHED: WebhookType(
        BudgetReached, "An account has used so many percent of its allocation."
    ),
    ALERT: WebhookType(Alert, "An alert of Alertmanager fires or is resolved."),
    TEST: WebhookType(WebhookTested, "Somebody tests the webhook."),
}


def webhook_body(name: str, at_us: int, data: Message) -> bytes:
    """Return the body that is posted, and signed."""
    found = {
        "type": name,
        "timestamp": format_time(at_us),
        "data": orjson.Fragment(answer_json(data)),
    }
    return orjson.dumps(found)


def webhook_schema(name: str, base: str) -> dict[str, Any]:
    """Return the JSON Schema of the body of a type; references begin with `base`."""
    return {
        "type": "object",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": {"const": name},
            "timestamp": {
                "type": "string",
                "format": "date-time",
                "description": "When it happened.",
            },
            "data": {"$ref": f"{base}{TYPES[name].data.DESCRIPTOR.full_name}"},
        },
    }
