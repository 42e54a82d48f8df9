"""Hostile requests to REST over real services: `make fuzz-rest`.

They are drawn from the OpenAPI document that REST shows, and from what is no HTTP at all. No
request may end REST or a service behind it, and none is answered by 5xx but 503, or without words.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from services.rest.openapi import document
from services.rest.problems import CONTENT_TYPE
from services.rest.routes import routes
from shared.domain.eamc_policy import Policy
from tests.unit.services.history import made as of_history
from tests.unit.services.rest.served import Client, HttpAnswer, Region, rest_over
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_AT_ONCE: Final = 16
_DEEP: Final = 5_000
_TEXTS: Final = (
    *("", " ", "a", "ada", "p1", "site/p1/1", "../..", "%", "%2F", "\x00", "\ud800", "ü", "💥"),
    *("'; DROP TABLE jobs; --", "{{7*7}}", "${jndi:x}", "x" * 300, "x" * 20_000, "null", "NaN"),
)
_USUAL: Final = ("a", "ada", "p1", "site/p1/1", "1.5", "2026-01-01T00:00:00Z")
_NUMBERS: Final = (
    *(0, -1, 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**400),
    *(1e308, -0.0, 1.5, 1e-320),
)
_TORN: Final = (
    b"",
    b"{",
    b"[" * _DEEP,
    b'{"a":' * _DEEP,
    b'{"a": NaN}',
    b'{"a": 1, "a": 2}',
    b"\xff\xfe\x00",
    b"null",
    b'"text"',
    b"1e999",
    b"9" * 5_000,
)
_NO_HTTP: Final = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/jobs HTTP/9.9\r\n\r\n",
    b"GET /v1/jobs\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"GET http://elsewhere/v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


class Sent(NamedTuple):
    """One request: the bytes of it where it is no HTTP."""

    verb: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    raw: bytes = b""


class Attacker:
    """Draws requests, the same for the same seed."""

    def __init__(self, seed: int, described: Mapping[str, Any]) -> None:
        self._rng = Random(f"{seed} rest")
        self._schemas = described["components"]["schemas"]
        self._operations = [
            (verb.upper(), path, operation)
            for path, verbs in described["paths"].items()
            for verb, operation in verbs.items()
        ]

    def requests(self, count: int) -> Iterator[Sent]:
        """Yield so many requests."""
        for _ in range(count):
            if self._one_in(40):
                yield Sent("", "", {}, None, self._rng.choice(_NO_HTTP))
            else:
                yield self._request(*self._rng.choice(self._operations))

    def _one_in(self, many: int) -> bool:
        return self._rng.randrange(many) == 0

    def _request(self, verb: str, path: str, operation: Mapping[str, Any]) -> Sent:
        parameters = [(one, self._text_of(one["schema"])) for one in operation["parameters"]]
        headers = self._headers(parameters)
        for one, text in parameters:
            if one["in"] == "path":
                encoded = text if self._one_in(9) else quote(text, "", errors="replace")
                path = path.replace(f"{{{one['name']}}}", encoded)
        if self._one_in(9):
            verb = self._rng.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"])
        if self._one_in(12):
            path += self._rng.choice(["/", "/x", "//", "%00", "%ff", "?"])
        query = self._query(parameters)
        target = _in_target(f"{path}?{'&'.join(query)}" if query else path)
        return Sent(verb, target, headers, self._body(operation, headers))

    def _headers(self, parameters: Sequence[tuple[Mapping[str, Any], str]]) -> dict[str, str]:
        further = [("Authorization", f"Bearer {self._text()}"), ("If_None_Match", self._text())]
        return {
            **{name: _in_header(text) for name, text in further if self._one_in(12)},
            **{
                one["name"].replace("-", "_"): _in_header(text)
                for one, text in parameters
                if one["in"] == "header" and self._one_in(4) != one["required"]
            },
        }

    def _query(self, parameters: Sequence[tuple[Mapping[str, Any], str]]) -> list[str]:
        given = [
            (one["name"], text)
            for one, text in parameters
            for _ in range(2 if self._one_in(20) else 1)
            if one["in"] == "query" and self._one_in(3)
        ]
        more = [(self._text(), self._text())] if self._one_in(9) else []
        return [
            f"{quote(name, errors='replace')}={quote(text, errors='replace')}"
            for name, text in (*given, *more)
        ]

    def _body(self, operation: Mapping[str, Any], headers: dict[str, str]) -> bytes | None:
        content = operation.get("requestBody", {}).get("content")
        if content is None:
            return None if self._rng.random() < 0.95 else b"x" * self._rng.randrange(2_000)
        if self._one_in(20):
            headers["Content_Type"] = _in_header(self._text())
        if self._one_in(9):
            return self._rng.choice(_TORN)
        if self._one_in(200):
            return b" " * (5 * 2**20)
        drawn = json.dumps(self._value(content["application/json"]["schema"], 6)).encode()
        return drawn[: self._rng.randrange(len(drawn) + 1)] if self._one_in(12) else drawn

    def _text_of(self, schema: Mapping[str, Any]) -> str:
        value = self._value(schema.get("items", schema), 2)
        return value if isinstance(value, str) else json.dumps(value)

    def _text(self) -> str:
        return self._rng.choice(_TEXTS if self._one_in(4) else _USUAL)

    def _value(self, schema: Mapping[str, Any], depth: int) -> Any:
        """A value that fits, as a rule: what is wrong is wrong in one place of many."""
        if depth == 0 or self._one_in(25):
            wrong: tuple[Any, ...] = (
                None,
                True,
                [],
                {},
                [[]],
                {"a": 1},
                self._text(),
                self._rng.choice(_NUMBERS),
            )
            return self._rng.choice(wrong)
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        if "anyOf" in schema:
            return self._value(self._rng.choice(schema["anyOf"]), depth)
        if "enum" in schema:
            return self._rng.choice([*schema["enum"], "NOBODY_KNOWS"])
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self._value(schema["items"], depth - 1) for _ in range(self._few())]
            case "boolean":
                return self._rng.random() < 0.5
            case "string" if schema.get("format") == "int64":
                return str(
                    self._rng.choice([T0_US, *((0, -1, 2**63, "x") if self._one_in(9) else ())])
                )
            case "string":
                return self._text()
            case "integer":
                return self._rng.choice([1, 2, 4, *(_NUMBERS if self._one_in(9) else ())])
            case _:
                return self._rng.choice([2.4, 300.0, *(_NUMBERS if self._one_in(9) else ())])

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        names, required = schema.get("properties", {}), schema.get("required", ())
        found = {
            name: self._value(one, depth - 1)
            for name, one in names.items()
            if (name in required and not self._one_in(20)) or self._one_in(4)
        }
        if isinstance(more := schema.get("additionalProperties"), dict):
            found |= {self._text(): self._value(more, depth - 1) for _ in range(self._few())}
        if self._one_in(20):
            found[self._text()] = self._text()
        return found

    def _few(self) -> int:
        return self._rng.choice([0, 1, 1, 2, 200 if self._one_in(30) else 3])


def _in_header(text: str) -> str:
    """A header that one line holds; the rest is for what is no HTTP."""
    return quote(text, safe=" /:'\"{}$;,.-*", errors="replace")[:4_000]


def _in_target(text: str) -> str:
    """A target that the first line of a request holds."""
    return quote(text, safe="/?&=%:@!$'()*+,;~-._", errors="replace")[:9_000]


def wrong_with(answer: HttpAnswer, *, has_body: bool = True) -> str:
    """What may not be about an answer, empty where all is as it must be."""
    if answer.status >= 500 and answer.status != 503:
        return f"{answer.status}: {answer.body[:300]!r}"
    if answer.status < 400:
        return ""
    if answer.status == 503 and "retry-after" not in answer.headers:
        return "503 does not say when to ask again"
    if answer.headers.get("content-type") != CONTENT_TYPE:
        is_no_http = answer.status == 400 and b"Invalid HTTP request" in answer.body
        return "" if is_no_http else f"no problem: {answer}"
    if not has_body:
        return f"a body to HEAD: {answer}" if answer.body else ""
    found = json.loads(answer.body)
    return "" if found["detail"] and found["status"] == answer.status else f"no words: {found}"


async def attack(client: Client, seed: int, count: int) -> tuple[Counter[int], list[str]]:
    """Send so many requests; how they were answered, and what was wrong with answers."""
    answers, wrong = Counter[int](), list[str]()
    drawn = Attacker(seed, document(routes())).requests(count)

    async def work() -> None:
        for sent in drawn:
            try:
                answer = await _send(client, sent)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                # What is no HTTP, or is too large, may be cut off in the middle.
                answers[0] += 1
                if not sent.raw and len(sent.body or b"") < 2**20:
                    wrong.append(f"{sent.verb} {sent.target[:200]}: {error!r}")
                continue
            answers[answer.status] += 1
            if problem := wrong_with(answer, has_body=sent.verb != "HEAD"):
                wrong.append(
                    f"{sent.verb} {sent.target[:200]} {(sent.body or b'')[:200]!r}: {problem}"
                )

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return answers, wrong


async def _send(client: Client, sent: Sent) -> HttpAnswer:
    if sent.raw:
        return await client.raw(sent.raw, closes=True)
    return await client.send(sent.verb, sent.target, sent.body, **sent.headers)


async def play(seed: int, count: int) -> tuple[Counter[int], list[str]]:
    """Attack REST over services of its own; what is wrong is of them too."""
    processor = placement(policy=Policy.BASE)
    names = ("site/p1/1", "b", "c")
    round_of(processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(names)))
    region = Region(processor)
    for name in names:
        region.facts.add("jobs.events", of_history.submitted(name))
        region.facts.add("prices.charges", of_history.charge(name), of_history.charge(name, "9"))
    async with rest_over(region, body_within_s=0.5) as client:
        answers, wrong = await attack(client, seed, count)
        last = await client.get("/v1/jobs/b")
    crashes = [f"a service crashed: {error!r}" for error in region.crashes]
    lost = [] if last.status == 200 else [f"an honest client is answered {last.status}"]
    return answers, [*wrong, *crashes, *lost]


def main() -> None:
    """Exit with what was wrong, if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=100_000)
    options = parser.parse_args()
    began_s = time.monotonic()
    answers, wrong = asyncio.run(play(options.seed, options.records))
    seconds = time.monotonic() - began_s
    by_status = dict(sorted(answers.items()))
    print(f"{sum(answers.values()):,} requests in {seconds:.0f} s by status: {by_status}")
    if wrong:
        raise SystemExit("\n".join(wrong[:50]))


if __name__ == "__main__":
    main()
