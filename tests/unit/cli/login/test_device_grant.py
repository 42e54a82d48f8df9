"""Signing in by a code, at an issuer that answers as it should, or does not."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.login import device_grant as module
from cli.login.device_grant import (
    DeviceCode,
    PollClock,
    Provider,
    SignInEndedError,
    SignInError,
    TokenGrant,
    begin,
    confirmed,
    renewed,
    revoke,
)
from tests.support.issuer import DISCOVERY, LocalIssuer, made, refused, running

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("issuer")
    made(found)
    return found


@pytest.fixture
def issuer(folder: Path) -> Iterator[LocalIssuer]:
    with running(LocalIssuer(folder)) as found:
        found.replies = {"/device": [device(found)], "/token": [tokens(found)]}
        yield found


def device(issuer: LocalIssuer, **changed: Any) -> dict[str, Any]:
    """What a provider gives a device; a value of None is left out."""
    said = {
        "device_code": "d-1",
        "user_code": "WDJB-MJHT",
        "verification_uri": f"{issuer.url}/device",
        "verification_uri_complete": f"{issuer.url}/device?user_code=WDJB-MJHT",
        "expires_in": 600,
        "interval": 5,
    }
    return {name: value for name, value in (said | changed).items() if value is not None}


def tokens(issuer: LocalIssuer, **changed: Any) -> dict[str, Any]:
    said = {"access_token": issuer.token(), "token_type": "Bearer", "refresh_token": "r-1"}
    return {name: value for name, value in (said | changed).items() if value is not None}


class Clock:
    """A clock that goes on when somebody sleeps, and knows for how long they did."""

    def __init__(self) -> None:
        self.now_s, self.slept = 0.0, list[float]()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    @property
    def pace(self) -> PollClock:
        return PollClock(lambda: self.now_s, self.sleep)


async def provider(issuer: LocalIssuer) -> Provider:
    return await Provider.discover(issuer.declared, "coplace")


async def sign_in(issuer: LocalIssuer, clock: Clock) -> TokenGrant:
    found = await provider(issuer)
    return await confirmed(found, await begin(found, "openid"), clock.pace)


async def test_a_code_that_is_confirmed_gives_tokens(issuer: LocalIssuer) -> None:
    issuer.replies["/token"].insert(0, refused("authorization_pending"))
    clock = Clock()
    found = await sign_in(issuer, clock)
    assert (found.who, found.refresh_token) == ("oidc:ada", "r-1")
    assert 3_500 < found.expires_in_s <= 3_600
    assert clock.slept == [5, 5]
    asked = {"grant_type": _GRANT, "device_code": "d-1", "client_id": "coplace"}
    assert issuer.posted == [
        ("/device", {"client_id": "coplace", "scope": "openid"}),
        ("/token", asked),
        ("/token", asked),
    ]


async def test_slow_down_lengthens_every_later_pause_by_five_seconds(issuer: LocalIssuer) -> None:
    pending = refused("authorization_pending")
    issuer.replies["/token"][:0] = [refused("slow_down"), pending, refused("slow_down")]
    clock = Clock()
    await sign_in(issuer, clock)
    assert clock.slept == [5, 10, 10, 15]


async def test_a_provider_that_names_no_interval_is_asked_every_five_seconds(
    issuer: LocalIssuer,
) -> None:
    issuer.replies["/device"] = [device(issuer, interval=None, verification_uri_complete=None)]
    clock = Clock()
    await sign_in(issuer, clock)
    assert clock.slept == [5]


async def test_a_code_that_nobody_confirms_expires(issuer: LocalIssuer) -> None:
    issuer.replies["/token"] = [refused("authorization_pending")]
    clock = Clock()
    with pytest.raises(SignInError, match="nobody confirmed the code within 600 s: run `coplace"):
        await sign_in(issuer, clock)
    assert 590 <= clock.now_s <= 600


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("access_denied", "you, or the provider, refused it"),
        ("expired_token", "run `coplace login` again"),
        ("invalid_client", "--client-id"),
        ("server_error", "the provider's operators know more"),
    ],
)
async def test_a_refusal_ends_it_and_says_what_to_do(
    issuer: LocalIssuer, error: str, told: str
) -> None:
    issuer.replies["/token"] = [refused(error, error_description="\x1b[2Jno")]
    with pytest.raises(SignInError) as refusal:
        await sign_in(issuer, Clock())
    assert told in str(refusal.value)
    assert issuer.url in str(refusal.value)
    assert "\x1b" not in str(refusal.value)
    assert len(issuer.posted) == 2


async def test_a_provider_that_fails_for_a_while_is_asked_less_often(issuer: LocalIssuer) -> None:
    issuer.replies["/token"][:0] = [(502, b"<html>"), (502, b"<html>")]
    clock = Clock()
    assert (await sign_in(issuer, clock)).who == "oidc:ada"
    assert clock.slept == [5, 10, 20]
    issuer.replies["/token"] = [(502, b"<html>")]
    with pytest.raises(SignInError, match="status 502"):
        await sign_in(issuer, Clock())


def hostile_devices(issuer: LocalIssuer) -> dict[str, Any]:
    return {
        "a terminal's command": device(issuer, user_code="\x1b]0;x\x07"),
        "a long code": device(issuer, user_code="x" * 65),
        "no code": device(issuer, device_code=None),
        "a number": device(issuer, user_code=7),
        "plain text": device(issuer, verification_uri="http://localhost/device"),
        "a script": device(issuer, verification_uri="javascript:alert(1)"),
        "a page of two lines": device(issuer, verification_uri="https://x.example/\nrm -rf"),
        "another page": device(issuer, verification_uri_complete=["https://x.example"]),
        "never": device(issuer, expires_in=None),
        "at once": device(issuer, expires_in=0),
        "before": device(issuer, interval=-1),
        "no number": (200, b'{"device_code": "d", "user_code": "u", "expires_in": NaN}'),
        "1 MB": (200, b" " * 2**20 + b"{}"),
        "no object": (200, b"[]"),
        "nested": (200, b"[" * 100_000),
        "no text": (200, b"\xff\xfe"),
        "moved": (302, b""),
    }


async def test_a_provider_that_lies_to_a_device_is_not_believed(issuer: LocalIssuer) -> None:
    found = await provider(issuer)
    for name, said in hostile_devices(issuer).items():
        issuer.replies["/device"] = [said]
        with pytest.raises(SignInError) as error:
            await begin(found, "openid")
        assert issuer.url in str(error.value), name
        assert str(error.value).isprintable(), name


def hostile_tokens(issuer: LocalIssuer) -> dict[str, Any]:
    return {
        "no token": tokens(issuer, access_token=None),
        "no text": tokens(issuer, access_token=["x"]),
        "two lines": tokens(issuer, access_token="a\nb"),
        "a long one": tokens(issuer, access_token="a" * 9_000),
        "opaque": tokens(issuer, access_token="abc"),
        "for others": tokens(issuer, access_token=issuer.token(aud="other")),
        "for nobody": tokens(issuer, access_token=issuer.token(aud=None)),
        "nameless": tokens(issuer, access_token=issuer.token(sub=None)),
        "endless": tokens(issuer, access_token=issuer.token(exp=None)),
        "renewed by a number": tokens(issuer, refresh_token=7),
        "expired": tokens(issuer, expires_in=-1),
    }


async def test_tokens_that_the_region_would_refuse_are_not_kept(issuer: LocalIssuer) -> None:
    for name, said in hostile_tokens(issuer).items():
        issuer.replies["/token"] = [said]
        with pytest.raises(SignInError) as error:
            await sign_in(issuer, Clock())
        assert "docs/how-to/oidc.md" in str(error.value), name


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://x.example"},
        {"token_endpoint": "http://localhost/token"},
        {"token_endpoint": None},
        {"device_authorization_endpoint": 7},
        {"revocation_endpoint": "file:///etc/passwd"},
    ],
)
async def test_a_provider_that_describes_another_is_not_asked(
    issuer: LocalIssuer, changed: dict[str, Any]
) -> None:
    described = {
        "issuer": issuer.url,
        "token_endpoint": f"{issuer.url}/token",
        "device_authorization_endpoint": f"{issuer.url}/device",
    }
    issuer.said = {DISCOVERY: described | changed}
    with pytest.raises(SignInError):
        await provider(issuer)
    assert issuer.posted == []


async def test_a_silent_provider_is_left_after_a_while(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WITHIN_S", 0.3)
    issuer.pause_s, began = 3.0, time.monotonic()
    with pytest.raises(SignInError, match="no answer within"):
        await provider(issuer)
    assert time.monotonic() - began < 2


async def test_a_login_is_renewed_until_the_provider_ends_it(issuer: LocalIssuer) -> None:
    found = await provider(issuer)
    issuer.replies["/token"] = [tokens(issuer, refresh_token=None)]
    fresh = await renewed(found, "r-1")
    assert (fresh.who, fresh.refresh_token) == ("oidc:ada", "r-1")
    sent = {"grant_type": "refresh_token", "refresh_token": "r-1", "client_id": "coplace"}
    assert issuer.posted == [("/token", sent)]
    issuer.replies["/token"] = [tokens(issuer, refresh_token="r-2")]
    assert (await renewed(found, "r-1")).refresh_token == "r-2"
    issuer.replies["/token"] = [refused("invalid_grant")]
    with pytest.raises(SignInEndedError, match="run `coplace login` again"):
        await renewed(found, "r-2")


async def test_a_login_is_revoked_whatever_the_provider_says_to_that(issuer: LocalIssuer) -> None:
    found = await provider(issuer)
    issuer.replies["/revoke"] = [(200, b"")]
    await revoke(found, "r-1")
    assert issuer.posted[-1][1]["token"] == "r-1"


def test_how_time_passes_is_the_clocks_own_by_default() -> None:
    assert PollClock() == PollClock(time.monotonic, asyncio.sleep)
    assert DeviceCode("d", "u", "p", "", 1.0, 1.0).page_with_code == ""
