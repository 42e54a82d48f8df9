"""What a declared policy setting must be."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from coplace.v1.control_pb2 import PolicyDeclared

from coplace_client.bounds import QUANTITIES
from coplace_client.errors import RejectedError
from shared.domain.cap_measures import measures_of
from shared.domain.eamc_policy import Policy, Reading

_Check = Callable[[str, Any], None]


def _anything(_name: str, _value: object) -> None:
    """Whatever its protobuf type lets through."""


def _quantity(name: str, value: float) -> None:
    QUANTITIES[name].require(name, value)


def _one_of(known: Iterable[str]) -> _Check:
    names = tuple(known)

    def check(field: str, value: str) -> None:
        if value not in names:
            raise RejectedError(field, f"must be one of {', '.join(names)}, got {value[:40]!r}")

    return check


def _measures(name: str, value: str) -> None:
    try:
        measures_of(value)
    except ValueError as error:
        raise RejectedError(name, str(error)) from None


# Each where it is set.
_SETTINGS: Final[Mapping[str, _Check]] = {
    "policy": _one_of(Policy),
    "t_weight": _quantity,
    "threshold": _quantity,
    "reading": _one_of(Reading),
    "max_slowdown": _quantity,
    "quantile": _quantity,
    "cap_counts_idle": _anything,
    "cap_slowdown": _quantity,
    "cap_margin": _quantity,
    "cap_risk": _quantity,
    "cap_power_sd": _quantity,
    "cap_user_correlation": _quantity,
    "cap_measures": _measures,
    "cap_sharing": _anything,
    "action_timeout_s": _quantity,
    "start_timeout_s": _quantity,
    "most_missed_starts": _quantity,
    "most_requeues": _quantity,
    "most_node_failures": _quantity,
    "node_failure_window_s": _quantity,
    "meter_silence_s": _quantity,
}
_require_known: Final = _one_of(_SETTINGS)


def require_policy(message: PolicyDeclared) -> None:
    """Raise RejectedError unless what is set is possible, and each setting is named once."""
    named = [name for name in _SETTINGS if message.HasField(name)]  # type: ignore[arg-type]
    for name in named:
        _SETTINGS[name](name, getattr(message, name))
    if not named and not message.reset:
        raise RejectedError("policy", f"no setting is named: known are {', '.join(_SETTINGS)}")
    for number, name in enumerate(message.reset):
        _require_known(f"reset[{number}]", name)
        if name in named or name in message.reset[:number]:
            raise RejectedError(f"reset[{number}]", f"{name} is named twice")
