"""Signatures as Standard Webhooks has them, and the secrets that make them. Pure.

A secret follows from the key of the process, the id of the webhook and the number of the secret: it
is kept nowhere. https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook as Signer

_PREFIX: Final = "whsec_"
_DELIVERY: Final = "msg_"
_DELIVERY_CHARACTERS: Final = 24


class Secrets:
    """The secrets that follow from one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def check(self) -> str:
        """Return by what the key is known again, and which discloses nothing of it."""
        return self._derived("check").hex()

    def of(self, webhook_id: str, number: int) -> bytes:
        """Return a secret of a webhook."""
        return self._derived(f"{webhook_id}/{number}")

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self._key, purpose.encode(), hashlib.sha256)


def secret_text(secret: bytes) -> str:
    """Return a secret as its owner is shown it."""
    return _PREFIX + b64encode(secret).decode()


def delivery_id(webhook_id: str, event_id: str) -> str:
    """Return the id of the delivery of an event, which is the same for ever."""
    digest = hashlib.sha256(f"{webhook_id}\n{event_id}".encode()).hexdigest()
    return _DELIVERY + digest[:_DELIVERY_CHARACTERS]


def signed_headers(
    name: str, now_us: int, body: bytes, secrets: Sequence[bytes]
) -> Mapping[str, str]:
    """Return the headers of a delivery; while a secret is replaced, with a signature of each."""
    at = datetime.fromtimestamp(now_us // 1_000_000, UTC)
    signatures = [Signer(secret).sign(name, at, body.decode()) for secret in secrets]
    return {
        "webhook-id": name,
        "webhook-timestamp": str(now_us // 1_000_000),
        "webhook-signature": " ".join(signatures),
    }
