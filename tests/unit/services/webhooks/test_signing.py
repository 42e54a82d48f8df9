"""Signatures of Standard Webhooks, against its published vector and its own library."""

import re
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from coplace_client.errors import CannotStartError
from services.webhooks.adapters import read_key
from services.webhooks.signing import Secrets, delivery_id, secret_text, signed_headers
from shared.process.clock import now_us


def test_the_published_vector_is_signed_as_it_says() -> None:
    # https://github.com/standard-webhooks/standard-webhooks, the test of each of its libraries
    secret = Verifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")._whsecret
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330_999_999,
        b'{"test": 2432232314}',
        [secret],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_both_secrets_verify_while_one_is_replaced() -> None:
    keys, body = Secrets(b"k" * 32), '{"text":"zoë"}'.encode()
    secrets = [keys.of("wh_1", 2), keys.of("wh_1", 1)]
    headers = dict(signed_headers("msg_1", now_us(), body, secrets))
    for secret in secrets:
        assert Verifier(secret_text(secret)).verify(body, headers) == {"text": "zoë"}
    with pytest.raises(WebhookVerificationError):
        Verifier(secret_text(keys.of("wh_1", 3))).verify(body, headers)


def test_a_secret_follows_from_key_webhook_and_number() -> None:
    keys = Secrets(b"k" * 32)
    found = {keys.of("wh_1", 1), keys.of("wh_1", 2), keys.of("wh_2", 1)}
    found |= {Secrets(b"l" * 32).of("wh_1", 1), bytes.fromhex(keys.check)}
    assert len(found) == 5
    assert keys.of("wh_1", 1) == Secrets(b"k" * 32).of("wh_1", 1)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret_text(keys.of("wh_1", 1)))


def test_an_event_has_one_id_for_each_webhook_for_ever() -> None:
    assert delivery_id("wh_1", "job.ended/a/1") == "msg_2b42f708ff91d0f9a4cd8f7e"
    assert delivery_id("wh_1", "job.ended/a/1") != delivery_id("wh_2", "job.ended/a/1")


def test_a_key_is_made_once_and_its_owner_alone_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.db.key"
    key = read_key(file)
    assert len(key) == 32
    assert read_key(file) == key
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "not hexadecimal", "ab" * 31])
def test_a_key_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(CannotStartError, match="restore it"):
        read_key(tmp_path / "key")


def test_a_key_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStartError, match="COPLACE_WEBHOOKS_KEY_FILE"):
        read_key(tmp_path / "nowhere" / "key")
