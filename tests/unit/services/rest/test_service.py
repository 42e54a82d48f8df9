"""What HTTP clients are answered, over real gRPC services."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from coplace.v1.control_pb2 import COMMAND_RESULT_IN_FORCE, CommandOutcome
from coplace.v1.jobs_pb2 import JobCancelled, JobSubmitted
from google.protobuf.json_format import MessageToDict

from coplace_client.health import Readiness
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.services.ingest.envelopes import NOW_US, PAYLOADS, envelope
from tests.unit.services.rest.served import Region, listening, rest_over
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_SLASHED = "north/alpha/17/1767225600"
_PUBLISHED = {"Ce_Source": "north", "Idempotency_Key": "4711"}


def in_json(kind: str) -> dict[str, Any]:
    """A payload in the form that REST has: whole numbers of 64 bits are texts."""
    found = envelope(kind)
    return MessageToDict(getattr(found, str(found.WhichOneof("payload"))))


@pytest.fixture
def processor() -> Placement:
    """The first job has all nodes of a cluster; the others wait."""
    found = placement(policy=Policy.BASE)
    names = [_SLASHED, "b", "ü ?%#.."]
    jobs = (
        submitted(name, T0_US + n, nodes=4, sequence=str(17 + n)) for n, name in enumerate(names)
    )
    round_of(found, 0, *jobs)
    return found


@pytest.fixture
def region(processor: Placement) -> Region:
    """Services that answer about these jobs."""
    return Region(processor)


async def test_a_job_is_explained_by_its_id_with_slashes_encoded_or_not(region: Region) -> None:
    async with rest_over(region) as client:
        for path in (_SLASHED, quote(_SLASHED, safe=""), "north%2Falpha/17%2f1767225600"):
            answer = await client.get(f"/v1/jobs/{path}")
            assert (answer.status, answer.json["jobId"]) == (200, _SLASHED)
        odd = await client.get(f"/v1/jobs/{quote('ü ?%#..', safe='')}")
        assert odd.json["jobId"] == "ü ?%#.."
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["standing"] == "JOB_STANDING_DECIDED"


async def test_whole_numbers_of_64_bits_are_texts_and_zeros_are_there(region: Region) -> None:
    async with rest_over(region) as client:
        answer = (await client.get("/v1/jobs?most=1")).json
    assert answer["asOfUs"].isdigit()
    assert answer["inAll"] == 3
    assert answer["nextPageToken"] == ""
    assert answer["jobs"][0]["place"] == 0


async def test_jobs_are_read_page_by_page(region: Region) -> None:
    async with rest_over(region) as client:
        first = (await client.get("/v1/jobs?pageSize=2")).json
        rest = (await client.get(f"/v1/jobs?pageSize=2&pageToken={first['nextPageToken']}")).json
    found = [job["jobId"] for page in (first, rest) for job in page["jobs"]]
    assert found == sorted([_SLASHED, "b", "ü ?%#.."])
    assert rest["nextPageToken"] == ""


async def test_a_job_is_found_by_the_number_of_its_resource_manager(region: Region) -> None:
    async with rest_over(region) as client:
        answer = await client.get("/v1/jobs?number=18")
    assert [job["jobId"] for job in answer.json["jobs"]] == ["b"]


async def test_a_list_in_a_query_is_given_several_times(region: Region) -> None:
    async with rest_over(region) as client:
        asked = "standings=JOB_STANDING_DECIDED&standings=JOB_STANDING_RUNNING"
        answer = await client.get(f"/v1/jobs?{asked}")
    assert [job["jobId"] for job in answer.json["jobs"]] == [_SLASHED]


@pytest.mark.parametrize("path", ["clusters", "limits", "nodes", "power", "policy"])
async def test_every_question_without_a_body_is_answered(region: Region, path: str) -> None:
    async with rest_over(region) as client:
        answer = await client.get(f"/v1/{path}")
    assert (answer.status, "asOfUs" in answer.json) == (200, True)


async def test_a_job_is_quoted(region: Region) -> None:
    job = in_json("jobSubmitted") | {"referenceCluster": "p1", "architectures": []}
    async with rest_over(region) as client:
        answer = await client.post("/v1/quotes", {"job": job})
    assert answer.status == 200
    assert [one["shareable"] for one in answer.json["placements"]] == [False, True]


async def test_projections_are_asked_for_with_a_body(region: Region) -> None:
    async with rest_over(region) as client:
        answer = await client.post("/v1/projections", {"subjects": [{"appId": "hpcg"}]})
    [found] = answer.json["projections"]
    assert (found["appId"], found["nodeModel"]) == ("hpcg", "gold")


async def test_an_answer_that_is_known_is_not_sent_again(region: Region) -> None:
    async with rest_over(region) as client:
        first = await client.get("/v1/clusters")
        tag = first.headers["etag"]
        for known in (tag, f'"x", W/{tag}', "*"):
            again = await client.get("/v1/clusters", If_None_Match=known)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        other = await client.get("/v1/clusters", If_None_Match='"other"')
        head = await client.ask("HEAD", "/v1/clusters")
    assert (other.status, other.body) == (200, first.body)
    assert (head.status, head.headers["etag"], head.body) == (200, tag, b"")


async def test_a_job_is_submitted_and_asked_for_where_the_answer_says(region: Region) -> None:
    async with rest_over(region) as client:
        answer = await client.post("/v1/jobs", in_json("jobSubmitted"), **_PUBLISHED)
    event = region.published[0].event
    job_id = str(PAYLOADS["jobSubmitted"]["jobId"])
    assert answer.status == 202
    assert answer.json == {"eventId": event.id}
    assert answer.headers["location"] == f"/v1/jobs/{quote(job_id, safe='')}"
    assert (event.id, event.source) == ("north/coplace.v1.JobSubmitted/4711", "north")
    assert event.time_us == NOW_US
    assert isinstance(event.payload, JobSubmitted)
    assert event.payload.resources_per_unit == {"gpu": 1}


async def test_what_is_sent_again_has_the_same_id(region: Region) -> None:
    async with rest_over(region) as client:
        for key in ("4711", '"4711"'):
            await client.post(
                "/v1/jobs", in_json("jobSubmitted"), Ce_Source="north", Idempotency_Key=key
            )
    assert len({publish.event.id for publish in region.published}) == 1


async def test_a_command_is_published_and_its_outcome_asked_where_the_answer_says(
    region: Region,
) -> None:
    async with rest_over(region) as client:
        body = in_json("jobCancelled")
        answer = await client.post(
            "/v1/events/job-cancelled", body, Ce_Id="a/ü %/1", Ce_Source="north"
        )
        assert answer.problem[1][0][0] == "Ce-Id"
        encoded = quote("a/ü %/1")
        answer = await client.post(
            "/v1/events/job-cancelled", body, Ce_Id=encoded, Ce_Source="north"
        )
        assert answer.json == {"eventId": "a/ü %/1"}
        assert (await client.get(answer.headers["location"])).json == {}
        region.outcomes.known["a/ü %/1"] = CommandOutcome(
            command_id="a/ü %/1", result=COMMAND_RESULT_IN_FORCE, round=7
        )
        outcome = await client.get(f"{answer.headers['location']}?withinS=1.5")
    assert outcome.json["outcome"]["result"] == "COMMAND_RESULT_IN_FORCE"
    assert outcome.json["outcome"]["round"] == "7"
    assert isinstance(region.published[0].event.payload, JobCancelled)


@pytest.mark.parametrize("kind", sorted(PAYLOADS))
async def test_every_payload_is_published_by_its_own_route(region: Region, kind: str) -> None:
    words = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in kind)
    path = "/v1/jobs" if kind == "jobSubmitted" else f"/v1/events/{words}"
    async with rest_over(region) as client:
        answer = await client.post(path, in_json(kind), **_PUBLISHED)
    assert answer.status == 202, answer.body
    assert len(region.published) == 1


async def test_headers_say_when_it_happened_and_which_trace_it_is_of(region: Region) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    async with rest_over(region) as client:
        headers = {"Ce_Time": "2026-01-01T00:00:01Z", "traceparent": trace}
        await client.post("/v1/jobs", in_json("jobSubmitted"), **_PUBLISHED, **headers)
        wrong = await client.post(
            "/v1/jobs", in_json("jobSubmitted"), **_PUBLISHED, Ce_Time="yesterday"
        )
    event = region.published[0].event
    assert (event.time_us, event.traceparent) == (NOW_US + 1_000_000, trace)
    assert wrong.problem[1] == [("Ce-Time", "must be RFC 3339, got 'yesterday'")]


async def test_every_wrong_field_is_named_at_once(region: Region) -> None:
    body = in_json("jobSubmitted") | {
        "nodes": "four",
        "walltimeS": None,
        "submittedAtUs": NOW_US,
        "job_id": "x",
        "architectures": ["x86_64", 7],
        "dependsOn": [{"jobId": "a", "condition": "SOON"}, 5],
        "resourcesPerUnit": {"gpu": -1},
        "shareable": "yes",
    }
    async with rest_over(region) as client:
        answer = await client.post("/v1/jobs", body)
    kind, errors = answer.problem
    assert (answer.status, kind) == (400, "invalid-argument")
    assert sorted(field for field, _ in errors) == [
        "Ce-Source",
        "Idempotency-Key",
        "architectures[1]",
        "dependsOn[0].condition",
        "dependsOn[1]",
        "job_id",
        "nodes",
        "resourcesPerUnit.gpu",
        "shareable",
        "submittedAtUs",
        "walltimeS",
    ]
    assert region.published == []


async def test_what_the_service_refuses_is_named_as_in_the_request(region: Region) -> None:
    wrong = in_json("jobSubmitted") | {"walltimeS": 0}
    async with rest_over(region) as client:
        answer = await client.post("/v1/jobs", wrong, **_PUBLISHED)
        quoted = await client.post("/v1/quotes", {"job": wrong})
        late = await client.get("/v1/outcomes/x?withinS=61")
    assert (answer.status, answer.problem[0]) == (400, "invalid-argument")
    assert answer.problem[1][0][0] == "walltimeS"
    assert quoted.problem[1][0][0] == "job.walltimeS"
    assert late.problem[1] == [("withinS", "must be 0 to 60, got 61.0")]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("user=a&user=b", "user"),
        ("most=x", "most"),
        ("most=-1", "most"),
        ("most=1e400", "most"),
        ("inQueue=1", "inQueue"),
        ("in_queue=true", "in_queue"),
        ("standings=NONE", "standings"),
        ("pageToken=%25", "pageToken"),
        ("nobody=knows", "nobody"),
    ],
)
async def test_a_wrong_query_is_refused_by_its_field(
    region: Region, query: str, field: str
) -> None:
    async with rest_over(region) as client:
        answer = await client.get(f"/v1/jobs?{query}")
    assert answer.status == 400
    assert [name for name, _ in answer.problem[1]] == [field]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nodes: 4",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"nodes": ' + b"9" * 5_000 + b"}",
    ],
)
async def test_a_body_that_is_no_json_is_refused(region: Region, body: bytes) -> None:
    async with rest_over(region) as client:
        answer = await client.send("POST", "/v1/jobs", body, **_PUBLISHED)
    assert (answer.status, answer.problem[0]) == (400, "not-json")


@pytest.mark.parametrize("body", [[], "text", 5, None, True])
async def test_a_body_that_is_no_object_is_refused(region: Region, body: object) -> None:
    raw = json.dumps(body).encode()
    async with rest_over(region) as client:
        answer = await client.send("POST", "/v1/jobs", raw, **_PUBLISHED)
    assert (answer.status, [field for field, _ in answer.problem[1]]) == (400, [""])


async def test_a_body_of_another_type_is_refused(region: Region) -> None:
    async with rest_over(region) as client:
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        answer = await client.send("POST", "/v1/jobs", b"a=b", **form)
    assert (answer.status, answer.problem[0]) == (415, "unsupported-media-type")


async def test_a_body_that_is_too_large_is_refused(region: Region) -> None:
    async with rest_over(region, most_body_bytes=100) as client:
        told = await client.send("POST", "/v1/jobs", b" " * 101)
        chunked = await client.raw(
            b"POST /v1/jobs HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + (b"50\r\n" + b" " * 80 + b"\r\n") * 2
        )
    assert (told.status, told.problem[0]) == (413, "body-too-large")
    assert (chunked.status, chunked.problem[0]) == (413, "body-too-large")


async def test_a_body_that_does_not_come_is_not_waited_for(region: Region) -> None:
    async with rest_over(region, body_within_s=0.1) as client:
        answer = await client.send("POST", "/v1/jobs", b"{", Content_Length="100")
    assert (answer.status, answer.problem[0]) == (408, "body-too-late")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/jobs", "/v1/jobs/", "/v1/clusters/", "/docs", "/v1/events/x", "/%ff"]
)
async def test_where_nothing_is_words_say_so(region: Region, path: str) -> None:
    async with rest_over(region) as client:
        answer = await client.get(path)
    assert (answer.status, answer.problem[0]) == (404, "unknown-path")


async def test_a_path_that_is_no_utf_8_is_refused(region: Region) -> None:
    async with rest_over(region) as client:
        answer = await client.get("/v1/jobs/%ff%fe")
    assert (answer.status, answer.problem[0]) == (400, "invalid-argument")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", {"GET", "HEAD", "POST"}),
        ("PUT", "/v1/jobs/a", {"GET", "HEAD"}),
        ("GET", "/v1/quotes", {"POST"}),
        ("OPTIONS", "/v1/clusters", {"GET", "HEAD"}),
        ("BREW", "/v1/events/job-held", {"POST"}),
    ],
)
async def test_another_verb_is_refused_with_those_that_there_are(
    region: Region, verb: str, path: str, allowed: set[str]
) -> None:
    async with rest_over(region) as client:
        answer = await client.ask(verb, path)
    assert (answer.status, answer.problem[0]) == (405, "method-not-allowed")
    assert {name.strip() for name in answer.headers["allow"].split(",")} == allowed


async def test_a_job_that_is_not_known_is_not_found(region: Region) -> None:
    async with rest_over(region) as client:
        answer = await client.get("/v1/jobs/nobody/knows/it")
    assert (answer.status, answer.problem[0]) == (404, "not-found")
    assert "coplace tail jobs.events" in answer.json["detail"]


async def test_a_standby_is_unavailable_and_says_when_to_ask_again() -> None:
    async with rest_over(Region()) as client:
        answer = await client.get("/v1/clusters")
    assert (answer.status, answer.problem[0]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_health_and_readiness_are_shown_where_the_routes_are(region: Region) -> None:
    async with rest_over(region) as client:
        found = [(await client.get(path)).status for path in ("/healthz", "/readyz")]
    assert found == [200, 200]

    async with listening(_nobody(), Readiness("start-up")) as waiting:
        answer = await waiting.get("/readyz")
    assert (answer.status, answer.body) == (503, b"waiting for start-up\n")


def _nobody() -> Any:
    return None


async def test_the_page_of_the_documents_is_shown_only_where_it_is_wanted(region: Region) -> None:
    async with rest_over(region, docs=True) as client:
        assert (await client.get("/docs")).status == 200
