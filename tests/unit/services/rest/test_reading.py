"""JSON to messages: what protobuf's own mapping writes is read, and nothing else."""

import json
from random import Random

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted
from google.protobuf.json_format import MessageToDict, MessageToJson
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from services.rest.reading import NoJsonError, Wrongs, parse_json, read_body
from services.rest.routes import routes
from shared.catalogue.answer_json import answer_json
from tests.attacks.distortion import distorted
from tests.unit.services.ingest.envelopes import PAYLOADS, envelope

_BODIES = {route.body.full_name: route.body for route in routes() if route.body is not None}


def read(data: object, kind: type[Message]) -> tuple[Message, list[str]]:
    found, wrongs = kind(), Wrongs()
    read_body(data, found, wrongs)
    return found, [f"{one.field}: {one.detail}" for one in wrongs.found]


@pytest.mark.parametrize("seed", range(20))
def test_what_protobuf_writes_is_read_as_it_was(seed: int) -> None:
    rng = Random(seed)
    envelopes = map(envelope, sorted(PAYLOADS))
    for message in (getattr(one, str(one.WhichOneof("payload"))) for one in envelopes):
        changed = distorted(message, rng)
        written = MessageToDict(changed)
        again, wrong = read(json.loads(json.dumps(written)), type(changed))
        if not wrong:
            assert MessageToJson(again) == MessageToJson(changed)
        else:  # an enum's value of a later release is a number, which only answers have
            assert all("must be one of" in words for words in wrong), wrong


# A name that a message has may be read: an empty array of it is right.
_FIELDS = {field.json_name for body in _BODIES.values() for field in body.fields}
_NAMES = st.text().filter(lambda name: name not in _FIELDS)
_LEAVES = st.none() | st.booleans() | st.floats() | st.text() | st.integers()
_JSON = st.recursive(_LEAVES, lambda one: st.lists(one) | st.dictionaries(_NAMES, one))


@given(_JSON)
def test_any_json_is_read_or_refused_by_its_fields(data: object) -> None:
    for body in _BODIES.values():
        _, wrong = read(data, GetMessageClass(body))
        assert bool(wrong) == (data != {})


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused_in_words(body: bytes) -> None:
    try:
        parse_json(body)
        words = "they are JSON"
    except NoJsonError as error:
        words = str(error)
    assert words


def test_a_half_of_a_surrogate_pair_is_no_text() -> None:
    job = GetMessageClass(_BODIES["coplace.v1.JobSubmitted"])
    data = parse_json(rb'{"user": "\ud800", "resourcesPerUnit": {"\ud800": 1}, "\ud800": 1}')
    _, wrong = read(data, job)
    assert [words.partition(":")[0] for words in wrong] == ["user", "resourcesPerUnit.?", "?"]


def test_of_two_that_exclude_each_other_the_second_is_wrong() -> None:
    asked = GetMessageClass(_BODIES["coplace.v1.ProjectRequest"])
    _, wrong = read({"subjects": [{"appId": "a", "signature": {}}]}, asked)
    assert wrong == ["subjects[0].signature: goes without appId"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("job_id", "is jobId meant?"),
        ("wallTimeS", "is walltimeS meant?"),
        ("zzz", "there are account, appId, "),
    ],
)
def test_an_unknown_field_says_which_one_was_meant(name: str, advice: str) -> None:
    message, wrong = read({name: 1}, JobSubmitted)
    [detail] = wrong
    assert message == JobSubmitted()
    assert f"is unknown: {advice}" in detail


def test_so_many_wrong_fields_are_listed_and_no_more() -> None:
    asked = GetMessageClass(_BODIES["coplace.v1.ProjectRequest"])
    _, wrong = read({"pstatesGhz": ["x"] * 5_000}, asked)
    assert len(wrong) == 100


def test_equal_answers_are_equal_bytes() -> None:
    job = GetMessageClass(_BODIES["coplace.v1.JobSubmitted"])
    one = job(resources_per_unit={"a": 1, "b": 2, "c": 3})
    other = job(resources_per_unit={"c": 3, "b": 2, "a": 1})
    assert answer_json(one) == answer_json(other)
