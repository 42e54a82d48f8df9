"""What an operator's declaration says of the policy's settings: read, checked, and written.

Settings come as names and values. Those of earlier releases have a field each in PolicyDeclared
too: records keep declarations of that form for ever, and clients of before write it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from coplace.v1.control_pb2 import NamedSetting, PolicyDeclared

from coplace_client.errors import RejectedError
from shared.catalogue.policy_settings import DECLARABLE

_FIELDS: Final = tuple(
    field.name for field in PolicyDeclared.DESCRIPTOR.fields if field.has_presence
)


def declaration_of(
    settings: Mapping[str, str], reset: Collection[str], reason: str, now_us: int
) -> PolicyDeclared:
    """Return the declaration of settings, by their values in words, and of those to reset. A door
    that does not know names and values finds no setting in it, and refuses it."""
    named = [NamedSetting(name=name, value=value) for name, value in settings.items()]
    return PolicyDeclared(settings=named, reset=reset, reason=reason, declared_at_us=now_us)


def declared(message: PolicyDeclared) -> dict[str, Any]:
    """Return the values that a declaration gives to settings. Raise RejectedError for a value that
    cannot be; names that are not known are passed over, since whoever took it knew them."""
    found = {name: _of_field(name, getattr(message, name)) for name in _by_field(message)}
    for each in message.settings:
        if each.name in DECLARABLE:
            found[each.name] = DECLARABLE[each.name].parse(each.value)
    return found


def names_in(message: PolicyDeclared) -> Iterator[str]:
    """Yield the names of the settings that a declaration is about: what it declares, and what it
    resets."""
    yield from _by_field(message)
    yield from (each.name for each in message.settings)
    yield from message.reset


def check_declaration(message: PolicyDeclared) -> None:
    """Raise RejectedError unless settings are named, each once, and all are known and possible."""
    for number, each in enumerate(message.settings):
        if each.name not in DECLARABLE:
            known = f"known are {', '.join(DECLARABLE)}"
            problem = f"{each.name[:40]!r} is not a setting of this release: {known}"
            raise RejectedError(f"settings[{number}].name", problem)
    names = [*_by_field(message), *(each.name for each in message.settings)]
    if not names and not message.reset:
        raise RejectedError("policy", f"no setting is named: known are {', '.join(DECLARABLE)}")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise RejectedError(name, "is named twice")
    _check_reset(message.reset, names)
    declared(message)
    # What an earlier release took is read all the same.
    for each in message.settings:
        DECLARABLE[each.name].require_plain(each.value)


def _check_reset(reset: Sequence[str], declared: Collection[str]) -> None:
    for number, name in enumerate(reset):
        if name not in DECLARABLE:
            problem = f"must be one of {', '.join(DECLARABLE)}, got {name[:40]!r}"
            raise RejectedError(f"reset[{number}]", problem)
        if name in declared or name in reset[:number]:
            raise RejectedError(f"reset[{number}]", f"{name} is named twice")


def reset_values(message: PolicyDeclared, names: Collection[str]) -> PolicyDeclared | None:
    """Return what is left of a declaration that says nothing of these settings; None where nothing
    is."""
    left = PolicyDeclared.FromString(message.SerializeToString())
    for name in {*names} & {*_FIELDS}:
        left.ClearField(name)  # type: ignore[arg-type]
    kept = [each for each in message.settings if each.name not in names]
    del left.settings[:]
    left.settings.extend(kept)
    left.reset[:] = [name for name in message.reset if name not in names]
    return left if any(names_in(left)) else None


def _by_field(message: PolicyDeclared) -> Iterator[str]:
    yield from (name for name in _FIELDS if message.HasField(name))  # type: ignore[arg-type]


def _of_field(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return DECLARABLE[name].parse(value)
    DECLARABLE[name].require(value)
    return value
