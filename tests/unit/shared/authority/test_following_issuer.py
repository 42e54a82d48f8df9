"""How the keys of an issuer are fetched, from one that answers over HTTPS or does not."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.authority import following_issuer as module
from shared.authority.following_issuer import (
    KeysSchedule,
    fetch_keys,
    issuer_followed,
)
from shared.authority.issuer import Issuer
from shared.authority.issuer_calls import IssuerFailedError
from shared.authority.signed import SignedTokens, UnverifiedTokenError
from shared.authority.tokens import RefusedTokenError
from shared.process.clock import now_us
from tests.support.issuer import AUDIENCE, DISCOVERY, LocalIssuer, made, rsa_key, running

A, B = Issuer("https://a.example", "x"), Issuer("https://b.example", "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("issuer")
    made(found)
    return found


@pytest.fixture
def issuer(folder: Path) -> Iterator[LocalIssuer]:
    with running(LocalIssuer(folder)) as found:
        yield found


async def test_keys_come_by_discovery_over_tls(issuer: LocalIssuer) -> None:
    assert set((await fetch_keys(issuer.declared)).of) == {"one", "two"}
    assert issuer.asked == [DISCOVERY, "/keys"]


def lies(issuer: LocalIssuer) -> dict[str, dict[str, Any]]:
    moved = {DISCOVERY: (302, b"")}
    return {
        "another issuer": {DISCOVERY: {"issuer": "https://x.example", "jwks_uri": issuer.url}},
        "no address": {DISCOVERY: {"issuer": issuer.url}},
        "plain text": {DISCOVERY: {"issuer": issuer.url, "jwks_uri": "http://localhost/keys"}},
        "a file": {DISCOVERY: {"issuer": issuer.url, "jwks_uri": "file:///etc/passwd"}},
        "moved": moved,
        "an error": {"/keys": (500, b"")},
        "1 MB": {"/keys": (200, b'{"keys": [' + b" " * 2**20 + b"]}")},
        "no JSON": {"/keys": (200, b"<html>")},
        "no object": {"/keys": (200, b"[]")},
        "no text": {"/keys": (200, b"\xff\xfe\xfd")},
        "nested": {"/keys": (200, b"[" * 100_000)},
        "no keys": {"/keys": {}},
    }


async def test_an_issuer_that_lies_is_not_believed(issuer: LocalIssuer) -> None:
    with running(LocalIssuer(issuer.folder)) as elsewhere:
        issuer.headers = {"Location": elsewhere.url + DISCOVERY}
        believed: list[str] = []
        for name, said in lies(issuer).items():
            issuer.said = said
            try:
                await fetch_keys(issuer.declared)
                believed.append(name)
            except IssuerFailedError:
                pass
        assert believed == []
        assert elsewhere.asked == []


async def test_an_issuer_by_another_authority_is_not_believed(
    issuer: LocalIssuer, tmp_path: Path
) -> None:
    other = made(tmp_path)
    stranger = Issuer(issuer.url, AUDIENCE, ca=(other.folder / "ca.pem").read_text())
    for declared in (stranger, Issuer(issuer.url, AUDIENCE)):
        with pytest.raises(IssuerFailedError, match="certificate"):
            await fetch_keys(declared)
    by_address = Issuer(
        issuer.url.replace("localhost", "127.0.0.1"), AUDIENCE, ca=issuer.declared.ca
    )
    with pytest.raises(IssuerFailedError, match="certificate"):
        await fetch_keys(by_address)
    assert issuer.asked == []


async def test_a_silent_issuer_is_left_after_a_while(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WITHIN_S", 0.3)
    issuer.pause_s = 3.0
    began = time.monotonic()
    with pytest.raises(IssuerFailedError, match="within"):
        await fetch_keys(issuer.declared)
    assert time.monotonic() - began < 2.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 any condition
            await asyncio.sleep(0.01)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_S", "_AGAIN_S", "_FIRST_AGAIN_S"):
        monkeypatch.setattr(module, name, 0.02)


async def test_a_new_key_counts_soon_and_an_issuer_that_is_down_stops_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    crashes: list[Exception] = []
    with running(LocalIssuer(folder)) as issuer:
        declared = issuer.declared
        tokens = SignedTokens(lambda: declared)
        with pytest.raises(UnverifiedTokenError):
            tokens.holder(issuer.token(), now_us())
        async with issuer_followed(tokens, crashes.append):
            await until(lambda: tokens.has_keys_of(declared))
            old = issuer.token()
            assert tokens.holder(old, now_us()) == "oidc:ada"
            issuer.keys["three"] = rsa_key()
            new = issuer.token(kid="three")
            with pytest.raises(RefusedTokenError):
                tokens.holder(new, now_us())
            await until(lambda: not tokens.wants_keys)
            assert tokens.holder(new, now_us()) == "oidc:ada"
            issuer.said = {"/keys": (503, b"")}
            asked = len(issuer.asked)
            tokens.wants_keys = True
            await until(lambda: len(issuer.asked) >= asked + 4)
            assert tokens.holder(old, now_us()) == "oidc:ada"
    assert crashes == []


async def test_who_makes_up_keys_makes_nobody_fetch_more_often(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    declared = issuer.declared
    tokens = SignedTokens(lambda: declared)
    async with issuer_followed(tokens, lambda _error: None):
        await until(lambda: tokens.has_keys_of(declared))
        for number in range(200):
            token = issuer.signed(issuer.claims(), headers={"kid": f"made-up-{number}"})
            with pytest.raises(RefusedTokenError):
                tokens.holder(token, now_us())
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
    assert issuer.asked == [DISCOVERY, "/keys"]


def test_keys_are_fetched_when_they_are_new_old_or_wanted() -> None:
    schedule = KeysSchedule()
    assert schedule.is_due(A, 0.0, wanted=False)
    schedule.tried(A, 0.0, succeeded=False)
    assert not schedule.is_due(A, 4.9, wanted=True)
    assert schedule.is_due(A, 5.0, wanted=False)
    schedule.tried(A, 5.0, succeeded=True)
    assert not schedule.is_due(A, 34.9, wanted=True)
    assert schedule.is_due(A, 35.0, wanted=True)
    assert not schedule.is_due(A, 304.9, wanted=False)
    assert schedule.is_due(A, 305.0, wanted=False)
    assert schedule.is_due(B, 5.1, wanted=False)
    schedule.tried(A, 305.0, succeeded=False)
    assert not schedule.is_due(A, 334.9, wanted=True)
    schedule.tried(B, 335.0, succeeded=False)
    assert schedule.is_due(B, 340.0, wanted=False)
