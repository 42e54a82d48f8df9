"""The description of the routes is valid, and says of each what the route does."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from services.rest.openapi import document
from services.rest.routes import Route, routes
from shared.catalogue.guards import PAYLOADS
from tests.unit.services.rest.served import Region, rest_over


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The document."""
    return document(routes())


def test_it_is_valid_openapi(described: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(described).validate()


def test_every_schema_is_a_valid_one(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert len(schemas) > 80
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_there_is_a_route_for_every_payload_of_an_envelope() -> None:
    assert {route.payload for route in routes()} - {""} == set(PAYLOADS)


def test_every_route_is_described_by_the_comments_of_the_protos(described: dict[str, Any]) -> None:
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) == len(routes())
    assert [one["operationId"] for one in operations if " " not in one["description"]] == []
    [explain] = [one for one in operations if one["operationId"] == "Explain"]
    assert explain["summary"].startswith("The state of a job, why it does not start")


def test_the_parameters_of_a_route_are_the_fields_of_its_request(
    described: dict[str, Any],
) -> None:
    parameters = described["paths"]["/v1/jobs"]["get"]["parameters"]
    found = {one["name"]: one["schema"] for one in parameters}
    assert {"user", "standings", "pageSize", "pageToken", "inQueue"} <= found.keys()
    assert found["standings"]["type"] == "array"
    [job_id] = described["paths"]["/v1/jobs/{jobId}"]["get"]["parameters"]
    assert (job_id["in"], job_id["required"]) == ("path", True)


async def test_it_is_served(described: dict[str, Any]) -> None:
    async with rest_over(Region()) as client:
        answer = await client.get("/openapi.json")
    assert (answer.status, answer.json) == (200, described)


def test_a_path_gives_back_what_was_put_into_it() -> None:
    [explain] = [route for route in routes() if route.operation == "Explain"]
    for job_id in ("a/b/c", "a%2Fb", "ü ?#", "..", "x" * 256):
        path = explain.path_of(job_id=job_id)
        assert explain.path_values(path.encode()) == {"job_id": job_id}
    assert explain.path_values(b"/v1/jobs") is None


@pytest.mark.parametrize(
    ("verb", "path"), [("DELETE", "/v1/x"), ("GET", "/x"), ("GET", "/v1/{nobody}")]
)
def test_an_option_that_is_no_route_stops_the_process(verb: str, path: str) -> None:
    with pytest.raises(Exception, match=r"Explain: .* is not a route of it"):
        Route(verb, path, next(one.method for one in routes() if one.operation == "Explain"))
