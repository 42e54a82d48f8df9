"""Redis's users: their file, and how a Redis differs from it."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis

from shared.catalogue.access.rules import RedisUser

# Who gives no name; nobody may.
_DEFAULT: Final = "default"
_NOBODY: Final = "user default off resetkeys resetchannels -@all"
# What a listed user has beside keys, channels and commands.
_FLAGS: Final = frozenset({"on", "sanitize-payload"})


def acl_file(users: Iterable[RedisUser], passwords: Mapping[str, Sequence[str]]) -> str:
    """Return the file of Redis's users, each believed with any of its passwords; it holds the
    SHA-256 of these alone."""
    lines = [_NOBODY]
    for user in users:
        digests = " ".join(map(_digest, passwords[user.name]))
        lines.append(f"user {user.name} on {digests} {' '.join(user.rules)}")
    return "\n".join(lines) + "\n"


async def set_passwords(redis: Redis, passwords: Mapping[str, Sequence[str]]) -> None:
    """Believe each user with any of these passwords and no other; who is connected stays so, which
    `ACL LOAD` would not grant. Raises RedisError."""
    for user, known in passwords.items():
        command = ("ACL", "SETUSER", user, "resetpass", *map(_digest, known))
        await redis.execute_command(*command)  # type: ignore[no-untyped-call]


def _digest(password: str) -> str:
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"


async def has_users(redis: Redis) -> bool:
    """Return whether Redis asks clients to authenticate: not where anybody may do anything."""
    return _text(await redis.acl_whoami()) != _DEFAULT


async def differences(redis: Redis, users: Iterable[RedisUser]) -> list[str]:
    """Return what Redis does not allow as it should, and what it allows beyond. Raises
    RedisError."""
    listed = dict(map(_listed, await redis.acl_list()))
    found: list[str] = []
    for user in users:
        found += _of_user(user, listed.pop(user.name, None))
    if "on" in listed.get(_DEFAULT, ()):
        found.append(f"a client without a name may do what {_DEFAULT} may: turn that user off")
    return found


def _of_user(user: RedisUser, listed: frozenset[str] | None) -> Iterator[str]:
    if listed is None or "on" not in listed:
        yield f"{user.name} is not a user of Redis: create it by `coplace topics acls`"
        return
    wanted, has = set(user.rules), {word for word in listed - _FLAGS if not word.startswith("#")}
    if missing := sorted(wanted - has):
        yield f"{user.name} lacks {' '.join(missing)}"
    if beyond := sorted(has - wanted):
        yield f"{user.name} has beyond its rules {' '.join(beyond)}"


def _listed(line: bytes | str) -> tuple[str, frozenset[str]]:
    _, name, *words = _text(line).split(" ")
    return name, frozenset(words)


def _text(found: bytes | str) -> str:
    return found if isinstance(found, str) else found.decode()
