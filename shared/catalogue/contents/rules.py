"""What each field must be of what operators declare and of what planners propose."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from coplace.v1.authority_pb2 import AccessAudited, AuthorityDeclared, AuthorityRole
from coplace.v1.control_pb2 import (
    POWER_SCOPE_REGION,
    LimitsDeclared,
    LimitSubject,
    ModelPinned,
    ModelRolledBack,
    PairsAllowed,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
    PowerScope,
)
from coplace.v1.plans_pb2 import PlanProposed
from google.protobuf.message import Message

from coplace_client.bounds import POWER_CAP_W
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.field_checks import (
    ATTEMPT,
    Check,
    anything,
    each,
    each_of_any,
    fields,
    named,
    one_of,
    quantity,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.domain.cap_measures import measures_of
from shared.domain.eamc_policy import Policy, Reading
from shared.domain.model_names import PAIR_TREES, TREES

# How long a plan may hold: who sends none any more is forgotten within a day.
_MOST_PLAN_US: Final = 86_400_000_000


def _cap_step(step: PowerCapStep) -> None:
    time_us(step.from_us)
    if step.HasField("watts"):
        POWER_CAP_W.require("watts", step.watts)


def _cap(message: PowerCapDeclared) -> None:
    """What only the whole tells: whose cap it is, and that its steps are of now or the future."""
    if message.scope != POWER_SCOPE_REGION:
        require_text("name", message.name)
    elif message.name:
        raise RejectedError("name", f"must be empty for the region, got {message.name!r}")
    for number, (step, following) in enumerate(pairwise(message.steps), 1):
        if following.from_us <= step.from_us:
            problem = "must be later than that of the step before: periods must not overlap"
            raise RejectedError(f"steps[{number}].from_us", problem)
    capped = [step.HasField("watts") for step in message.steps]
    is_over = not capped[-1] and message.steps[-1].from_us <= message.declared_at_us
    if is_over and any(capped):
        raise RejectedError("steps", "lie in the past: none of these caps holds any more")


_PLAN_ITEM: Final = fields(
    {
        **ATTEMPT,
        "cluster": text,
        "freq_ghz": quantity("freq_ghz"),
        "walltime_s": quantity("walltime_s"),
        "draw_w": quantity("draw_w"),
        "tier": quantity("tier"),
        "not_before_us": time_us_or_never,
    }
)


def _plan(message: PlanProposed) -> None:
    """What only the whole tells: until when it holds."""
    held_us = message.valid_until_us - message.based_at_us
    if not 0 < held_us <= _MOST_PLAN_US:
        problem = f"must lie up to a day behind based_at_us, got {held_us} us"
        raise RejectedError("valid_until_us", problem)


def _measures(value: str) -> None:
    try:
        measures_of(value)
    except ValueError as error:
        raise RejectedError("", str(error)) from None


# Each where it is set.
_SETTINGS: Final[Mapping[str, Check]] = {
    "policy": named(Policy),
    "t_weight": quantity("t_weight"),
    "threshold": quantity("threshold"),
    "reading": named(Reading),
    "max_slowdown": quantity("max_slowdown"),
    "quantile": quantity("quantile"),
    "cap_counts_idle": anything,
    "cap_slowdown": quantity("cap_slowdown"),
    "cap_margin": quantity("cap_margin"),
    "cap_risk": quantity("cap_risk"),
    "cap_power_sd": quantity("cap_power_sd"),
    "cap_user_correlation": quantity("cap_user_correlation"),
    "cap_measures": _measures,
    "cap_sharing": anything,
    "action_timeout_s": quantity("action_timeout_s"),
    "start_timeout_s": quantity("start_timeout_s"),
    "most_missed_starts": quantity("most_missed_starts"),
    "most_requeues": quantity("most_requeues"),
    "most_node_failures": quantity("most_node_failures"),
    "node_failure_window_s": quantity("node_failure_window_s"),
    "meter_silence_s": quantity("meter_silence_s"),
}


def _policy(message: PolicyDeclared) -> None:
    """What is set, and that each setting is named once."""
    named = {name: check for name, check in _SETTINGS.items() if message.HasField(name)}  # type: ignore[arg-type]
    fields(named)(message)
    if not named and not message.reset:
        raise RejectedError("policy", f"no setting is named: known are {', '.join(_SETTINGS)}")
    for number, name in enumerate(message.reset):
        if name in named or name in message.reset[:number]:
            raise RejectedError(f"reset[{number}]", f"{name} is named twice")


_TREES: Final = [TREES, PAIR_TREES]

RULES: Final[Mapping[type[Message], Check]] = {
    LimitsDeclared: fields(
        {
            "subject": one_of(LimitSubject.items()),
            "name": text,
            "most_running_jobs": anything,
            "most_nodes": anything,
        }
    ),
    PowerCapDeclared: fields(
        {
            "scope": one_of(PowerScope.items()),
            "name": text_or_empty,
            "steps": each("steps", _cap_step),
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        _cap,
    ),
    PolicyDeclared: fields(
        {
            "reset": each_of_any("reset", named(_SETTINGS)),
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        _policy,
    ),
    AuthorityDeclared: fields(
        {
            "version": anything,
            "bindings": each(
                "bindings", fields({"who": text, "role": one_of(AuthorityRole.items())})
            ),
            "reason": text_or_empty,
            "declared_at_us": time_us,
        }
    ),
    AccessAudited: fields({"action": text, "door": text, "at_us": time_us}),
    PairsAllowed: fields(
        {
            "node_model": text_or_empty,
            "app_id": text_or_empty,
            "co_runner_app_id": text_or_empty,
            "reason": text_or_empty,
            "allowed_at_us": time_us,
        }
    ),
    ModelPinned: fields(
        {
            "model": named(_TREES),
            "version": text_or_empty,
            "reason": text_or_empty,
            "pinned_at_us": time_us,
        }
    ),
    ModelRolledBack: fields(
        {
            "model": named(_TREES),
            "reason": text_or_empty,
            "rolled_back_at_us": time_us,
        }
    ),
    PlanProposed: fields(
        {
            "based_at_us": time_us,
            "valid_until_us": time_us,
            "items": each_of_any("items", _PLAN_ITEM),
        },
        _plan,
    ),
}
