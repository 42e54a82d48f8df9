"""The identity provider whose signed tokens identify callers, as the table of authority has it."""

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from coplace.v1.authority_pb2 import TokenIssuer

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError

# Begins the name of each caller whom an issuer identifies, and no other caller's.
ORIGIN: Final = "oidc:"
SUBJECT: Final = "sub"
_MOST_AUTHORITY: Final = 65_536


@dataclass(frozen=True, slots=True)
class Issuer:
    """Its URL, for whom its tokens must be, the claim that names the caller, and the certificates
    of who signs its own, in PEM; those that the machine trusts if empty. As which client people
    sign in, and what they ask for there. Raises RejectedError, naming the field."""

    url: str
    audience: str
    name_claim: str = SUBJECT
    ca: str = ""
    client_id: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        require_url("url", self.url)
        require_text("audience", self.audience)
        require_text("name_claim", self.name_claim)
        for field in ("client_id", "scope"):
            if text := getattr(self, field):
                require_text(field, text)
        if len(self.ca) > _MOST_AUTHORITY:
            problem = f"must be at most {_MOST_AUTHORITY} characters, got {len(self.ca)}"
            raise RejectedError("ca", problem)
        try:
            ssl.create_default_context(cadata=self.ca or None)
        except (ssl.SSLError, ValueError):
            raise RejectedError("ca", "must be certificates in PEM") from None

    @classmethod
    def from_message(cls, message: TokenIssuer) -> "Issuer":
        """Read the issuer that was declared."""
        try:
            return cls(
                *(message.url, message.audience, message.name_claim or SUBJECT, message.ca),
                *(message.client_id, message.scope),
            )
        except RejectedError as error:
            raise error.inside("issuer") from None

    @property
    def message(self) -> TokenIssuer:
        """Return the message that declares it."""
        return TokenIssuer(
            url=self.url,
            audience=self.audience,
            name_claim=self.name_claim,
            ca=self.ca,
            client_id=self.client_id,
            scope=self.scope,
        )

    @property
    def discovery_url(self) -> str:
        """Return where it describes itself."""
        return self.url.rstrip("/") + "/.well-known/openid-configuration"


def require_url(field: str, url: str) -> None:
    """Raise RejectedError unless it is the address of something over HTTPS, and no more."""
    require_text(field, url)
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise RejectedError(field, f"must be a URL, got {url[:80]!r}") from None
    is_plain = url.isascii() and " " not in url and not parts.fragment and "@" not in parts.netloc
    if parts.scheme != "https" or not is_address or not is_plain or parts.query:
        problem = "must be https:// with a host, without user, query and fragment"
        raise RejectedError(field, f"{problem}, got {url[:80]!r}")


def require_no_origin(field: str, name: str) -> None:
    """Raise RejectedError for a name that only an issuer may give."""
    if name.startswith(ORIGIN):
        problem = f"must not begin with {ORIGIN}, as names that an issuer gives do"
        raise RejectedError(field, f"{problem}, got {name[:40]!r}")
