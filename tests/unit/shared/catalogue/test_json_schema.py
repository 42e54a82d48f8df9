"""JSON Schemas say what the checks of messages say."""

from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, LimitsDeclared, PowerCapDeclared
from coplace.v1.jobs_pb2 import JobDeclined, JobHeld
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from jsonschema import Draft202012Validator

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.json_schema import bundle
from shared.catalogue.schemas import MESSAGES
from shared.catalogue.topics import load_topics
from tests.attacks.distortion import distorted, examples

T0_US = 1_767_225_600_000_000
BUNDLE = bundle()
PROPERTIES = BUNDLE["$defs"]["coplace.v1.JobSubmitted"]["properties"]


def validator(name: str) -> Draft202012Validator:
    """Of the messages of a name."""
    return Draft202012Validator({**BUNDLE, "$ref": f"#/$defs/{name}"})


def test_the_document_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(BUNDLE)


def test_the_schema_of_a_message_has_its_fields_in_json_form() -> None:
    assert PROPERTIES["submittedAtUs"] == {"type": "string", "format": "int64"}
    assert PROPERTIES["shareable"] == {"type": "boolean"}
    assert PROPERTIES["nodes"] == {"type": "integer", "minimum": 1, "maximum": 100_000}
    assert PROPERTIES["jobId"] == {"type": "string", "minLength": 1, "maxLength": 256}
    assert PROPERTIES["dependsOn"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/coplace.v1.Dependency"},
        "maxItems": 64,
    }


@pytest.mark.parametrize("message", examples(load_topics()), ids=lambda one: one.DESCRIPTOR.name)
def test_examples_fit_their_schemas(message: Message) -> None:
    validator(message.DESCRIPTOR.full_name).validate(MessageToDict(message))


def test_what_the_checks_take_the_schemas_take() -> None:
    rng, messages, taken = Random(1), examples(load_topics()), Counter[str]()
    for _ in range(4_000):
        message = distorted(rng.choice(messages), rng)
        name = message.DESCRIPTOR.full_name
        with suppress(RejectedError):
            check_contents(message)
            validator(name).validate(MessageToDict(message))
            taken[name] += 1
    assert len(taken) > len({type(message) for message in messages}) // 2


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (MESSAGES["coplace.v1.JobSubmitted"](), "jobId"),
        (JobHeld(job_id="x" * 257, held_at_us=T0_US), "too long"),
        (JobHeld(job_id="j"), "heldAtUs"),
        (LimitsDeclared(name="ada"), "subject"),
        (PowerCapDeclared(scope=POWER_SCOPE_REGION, declared_at_us=T0_US), "steps"),
        (JobDeclined(job_id="j", attempt=0, grant=1, declined_at_us=T0_US), "attempt"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.DESCRIPTOR.name,
)
def test_what_the_checks_refuse_the_schemas_refuse(wrong: Message, where: str) -> None:
    found = list(validator(wrong.DESCRIPTOR.full_name).iter_errors(MessageToDict(wrong)))
    assert where in "; ".join(one.message for one in found)
    with pytest.raises(RejectedError):
        check_contents(wrong)
