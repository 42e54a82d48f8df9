"""Pages of answers: a page begins behind the last row of the one before. Pure."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

import orjson

from coplace_client.errors import RejectedError

MOST: Final = 1_000
_USUAL: Final = 50
_MOST_TOKEN: Final = 4_096
_LEAST_WHOLE: Final = -(2**63)
_MOST_WHOLE: Final = 2**63 - 1

# What identifies a row, in the order of its columns.
PageKey = tuple[str | int, ...]


def page_size(asked: int) -> int:
    """Return how many rows a page has. Raises RejectedError."""
    if asked > MOST:
        raise RejectedError("page_size", f"must be at most {MOST}, got {asked}")
    return asked or _USUAL


def page_token(key: Sequence[str | int]) -> str:
    """Return the token of the page that ends with this row."""
    return urlsafe_b64encode(orjson.dumps(list(key))).decode()


def page_key(token: str, kinds: Sequence[type[str] | type[int]]) -> PageKey | None:
    """Return behind which row a page begins, None for the first page; its values are of these
    kinds. Raises RejectedError."""
    if not token:
        return None
    try:
        if len(token) > _MOST_TOKEN:
            raise ValueError
        found = orjson.loads(b64decode(token.encode("ascii"), altchars=b"-_", validate=True))
    except ValueError:
        raise _no_token(token) from None
    if not isinstance(found, list) or [type(each) for each in found] != list(kinds):
        raise _no_token(token)
    if not all(_LEAST_WHOLE <= each <= _MOST_WHOLE for each in found if isinstance(each, int)):
        raise _no_token(token)
    return tuple(found)


def _no_token(token: str) -> RejectedError:
    problem = f"must be the next_page_token of an answer, got {token[:40]!r}"
    return RejectedError("page_token", problem)
