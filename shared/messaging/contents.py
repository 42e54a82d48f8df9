"""What each field of each event must be, wherever it comes from.

Ingest asks at the door, and the codec asks of each record that a stage reads, since records can be
written straight to topics. What only an operator's clock or a fold can know is asked there.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from math import isfinite
from typing import Final

from coplace.v1.accounts_pb2 import AllocationDeclared, PeriodClosed, WhenEmpty
from coplace.v1.authority_pb2 import (
    AccessAudited,
    AuthorityDeclared,
    AuthorityRole,
)
from coplace.v1.control_pb2 import (
    POWER_SCOPE_REGION,
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LimitsDeclared,
    LimitSubject,
    ModelPinned,
    ModelRolledBack,
    NodesDrained,
    NodesResumed,
    PairsAllowed,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
    PowerScope,
)
from coplace.v1.energy_pb2 import (
    AppIdMismatch,
    CoefficientsDeclared,
    CoefficientsPublished,
    SignatureUpdated,
)
from coplace.v1.jobs_pb2 import (
    DependencyCondition,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobOutcome,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodeMetersRead,
    NodePowerMeasured,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
    RegressionTrees,
    RunningPowerMeasured,
)
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import Payer, PriceModel, TariffDeclared
from coplace.v1.telemetry_pb2 import NodeSamples, ShuttersMeasured, SignatureMeasured
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from shared.domain.bounds import CORE_S, LENGTHS, NODE_POWER_W, POWER_CAP_W, READING_W, TDP_W
from shared.domain.cap_measures import measures_of
from shared.domain.checks import require_count, require_text
from shared.domain.errors import RejectedError
from shared.domain.hostlist import expand
from shared.domain.resources import require_resources, resources_of
from shared.eamc.frequency import Reading
from shared.eamc.ranking import Policy
from shared.messaging.domain_types import MOST_VERSION, cores_of, run_us
from shared.messaging.field_checks import (
    Check,
    anything,
    ascending,
    each,
    each_of_any,
    fields,
    host_list,
    if_known,
    one_of,
    quantity,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.messaging.tariffs import allocated_su, require_finish, require_past, tariff_of
from shared.models.pair_trees import PAIR_TREES
from shared.power_prediction.trees import TREES

MOST_UNKNOWN_BYTES: Final = 16_384
# How long a plan may hold: who sends none any more is forgotten within a day.
_MOST_PLAN_US: Final = 86_400_000_000
_ATTEMPT: Final[Mapping[str, Check]] = {"job_id": text, "attempt": quantity("attempt")}
_ACTION: Final[Mapping[str, Check]] = {
    **_ATTEMPT,
    "grant": if_known("grant"),
    "number": quantity("number"),
}
_DEPENDENCY: Final = fields({"job_id": text, "condition": one_of(DependencyCondition.items())})
_METRICS: Final[Mapping[str, Check]] = {
    name: quantity(name) for name in ("freq_ghz", "time_s", "power_w", "cpi", "tpi", "mem_gbps")
}
_SIGNATURE: Final = fields(
    {
        "app_id": text,
        "node_model": text,
        "job_id": text_or_empty,
        **_METRICS,
        "tpi_scale": text,
        "kernel": anything,
    }
)
_SHUTTER: Final = fields(
    {name: quantity(name) for name in ("ipc_before", "ipc_during", "ipc_after")}
)
_SAMPLE: Final = fields({"time_us": time_us, "power_w": quantity("samples.power_w")})


def _version(value: str) -> None:
    require_text("", value, limit=MOST_VERSION)


def _reading_mw(value: int) -> None:
    READING_W.require("", value / 1000)


def _samples(count: int) -> None:
    require_count("", count)
    LENGTHS["samples"].require("", count)


def _powers(by_node_model: Mapping[str, float]) -> None:
    LENGTHS["fallback_power_w"].require("", len(by_node_model))
    for node_model, power_w in by_node_model.items():
        text(node_model)
        NODE_POWER_W.require("", power_w)


def _resources(counts: Mapping[str, int]) -> None:
    require_resources("", resources_of(counts))


def _design_powers(by_name: Mapping[str, float]) -> None:
    """The domain asks whether the same nodes have such resources."""
    LENGTHS["resources"].require("", len(by_name))
    for name, tdp_w in by_name.items():
        text(name)
        TDP_W.require("", tdp_w)


def _held(counts: Mapping[str, int]) -> None:
    """Those of all units of a job together."""
    LENGTHS["resources"].require("", len(counts))
    for name in counts:
        text(name)


_NODE_CLASS: Final = fields(
    {
        "nodes": quantity("nodes"),
        "memory_gib": if_known("memory_gib_per_node"),
        "resources": _resources,
        "tdp_w": _design_powers,
    }
)


def _units_of_nodes(message: JobStarted) -> None:
    """As many counts as nodes, where both are told."""
    if not (message.nodes and message.node_units):
        return
    nodes = sum(len(expand(hosts)) for hosts in message.nodes)
    if len(message.node_units) != nodes:
        problem = f"must be one of each of {nodes} nodes, got {len(message.node_units)}"
        raise RejectedError("node_units", problem)


def _host_lists(message: NodesDrained | NodesResumed) -> None:
    """Lists that can be expanded: of the names only placement knows which there are."""
    for hosts in message.nodes:
        expand(hosts)


def _failed_somewhere(message: JobRequeued) -> None:
    """Names of nodes mean something on a cluster only."""
    if message.failed_nodes and not message.cluster:
        raise RejectedError("cluster", "must be named where nodes failed")


def _cores_of_nodes(message: JobFinished) -> None:
    """No more than its nodes gave it."""
    most = message.nodes * message.cores_per_node
    if message.cores > most:
        problem = f"must be at most {most} (nodes x cores_per_node), got {message.cores}"
        raise RejectedError("cores", problem)


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
        **_ATTEMPT,
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


def _named(names: Iterable[str]) -> Check:
    """One of these names."""
    known = tuple(names)

    def check(value: str) -> None:
        if value not in known:
            raise RejectedError("", f"must be one of {', '.join(known)}, got {value[:40]!r}")

    return check


def _measures(value: str) -> None:
    try:
        measures_of(value)
    except ValueError as error:
        raise RejectedError("", str(error)) from None


# Each where it is set.
_SETTINGS: Final[Mapping[str, Check]] = {
    "policy": _named(Policy),
    "t_weight": quantity("t_weight"),
    "threshold": quantity("threshold"),
    "reading": _named(Reading),
    "max_slowdown": quantity("max_slowdown"),
    "quantile": quantity("quantile"),
    "cap_counts_idle": anything,
    "cap_slowdown": quantity("cap_slowdown"),
    "cap_margin": quantity("cap_margin"),
    "cap_risk": quantity("cap_risk"),
    "cap_measures": _measures,
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


_INTERVAL: Final = fields(
    {"began_at_us": time_us, "freq_ghz": if_known("freq_ghz"), "energy_j": quantity("energy_j")}
)


def _whole_run(message: JobFinished) -> None:
    """Intervals follow one another from the start to the end."""
    if not message.intervals:
        return
    begins_us = [interval.began_at_us for interval in message.intervals]
    if begins_us[0] != message.started_at_us:
        problem = f"must begin with the run, at {message.started_at_us}, got {begins_us[0]}"
        raise RejectedError("intervals[0].began_at_us", problem)
    for number, (before_us, us) in enumerate(pairwise([*begins_us, message.ended_at_us]), 1):
        if us < before_us:
            problem = "must not lie before the one before it, nor behind the end"
            raise RejectedError(f"intervals[{number - 1}].began_at_us", problem)


def _core_time(message: JobFinished) -> None:
    """What a price multiplies."""
    core_s = cores_of(message) * run_us(message) / 1e6
    CORE_S.require("ended_at_us", core_s)


_POINT: Final = fields({"solo_share": text, "factor": text})
_RATE: Final = fields(
    {
        "resource": text,
        "su": text,
        **dict.fromkeys(("cluster", "node_model", "partition", "qos"), text_or_empty),
    }
)


def _or_unspecified(values: Iterable[tuple[str, int]]) -> Check:
    """Likewise, where it may be left open."""
    check = one_of(values)
    return lambda value: check(value) if value else None


# A job that was cancelled in the queue has a finish without a start; a resource manager without
# meters and frequency control knows no energy and no frequency.
def _trees(message: RegressionTrees) -> None:
    LENGTHS["trees"].require("sizes", len(message.sizes))
    for name in ("feature", "threshold", "right", "value"):
        LENGTHS["tree_nodes"].require(name, len(getattr(message, name)))
    for name in ("threshold", "value"):
        if not all(map(isfinite, getattr(message, name))):
            raise RejectedError(name, "must be finite")


_PUBLISHED_TREES: Final[Mapping[str, Check]] = {
    "version": _version,
    "extra": _trees,
    "boosted": _trees,
    "users": each(
        "tree_users",
        fields({"where": text_or_empty, "user": text_or_empty, "tree": _trees, "forest": _trees}),
    ),
}


_PUBLISHED_PAIR_TREES: Final[Mapping[str, Check]] = {
    "version": _version,
    "trees": _trees,
    "unseen_error": quantity("losses"),
    "unseen_error_of_weights": quantity("losses"),
}


def _chosen_trees(message: PowerTreesChosen | PairTreesChosen) -> None:
    """None come with the word that none are in force."""
    is_of_pairs = isinstance(message, PairTreesChosen)
    if message.HasField("trees"):
        published = _PUBLISHED_PAIR_TREES if is_of_pairs else _PUBLISHED_TREES
        fields({"trees": fields(published)})(message)


_TREES: Final = [TREES, PAIR_TREES]
_JUDGED: Final[Mapping[str, Check]] = {
    "version": _version,
    "in_force": text_or_empty,
    "error": quantity("losses"),
    "error_in_force": quantity("losses"),
}
_CHOSEN_TREES: Final = fields(
    {"version": text_or_empty, "who": text, "reason": text_or_empty}, _chosen_trees
)


_CHECKS: Final[Mapping[type[Message], Check]] = {
    JobSubmitted: fields(
        {
            **_ATTEMPT,
            "app_id": text_or_empty,
            "user": text,
            "account": text,
            "nodes": quantity("nodes"),
            "walltime_s": quantity("walltime_s"),
            "reference_cluster": text,
            "shareable": anything,
            "submitted_at_us": time_us,
            "priority": quantity("priority"),
            "depends_on": each_of_any("depends_on", _DEPENDENCY),
            "memory_gib": if_known("memory_gib"),
            "architectures": each_of_any("architectures", text),
            "cores_per_unit": if_known("cores_per_unit"),
            "memory_gib_per_unit": if_known("memory_gib_per_unit"),
            "resources_per_unit": _resources,
            "units_per_node": if_known("units_per_node"),
        }
    ),
    JobStarted: fields(
        {
            **_ATTEMPT,
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "freq_ghz": if_known("freq_ghz"),
            "started_at_us": time_us,
            "grant": if_known("grant"),
            "node_units": each_of_any("node_units", quantity("units_per_node")),
        },
        _units_of_nodes,
    ),
    JobFinished: fields(
        {
            **_ATTEMPT,
            "outcome": one_of(JobOutcome.items()),
            "cluster": text,
            "app_id": text_or_empty,
            "user": text,
            "account": text,
            "nodes": quantity("nodes"),
            "cores_per_node": quantity("cores_per_node"),
            "freq_ghz": if_known("freq_ghz"),
            "submitted_at_us": time_us,
            "started_at_us": time_us_or_never,
            "ended_at_us": time_us,
            "energy_j": quantity("energy_j"),
            "node_model": text_or_empty,
            "grant": if_known("grant"),
            "cores": if_known("cores"),
            "resources": _held,
            "failed_nodes": each_of_any("nodes", host_list),
            "intervals": each_of_any("intervals", _INTERVAL),
            "partition": text_or_empty,
            "qos": text_or_empty,
            "memory_gib": if_known("memory_gib"),
        },
        ascending("submitted_at_us", "started_at_us", "ended_at_us"),
        _cores_of_nodes,
        _whole_run,
        _core_time,
    ),
    JobRequeued: fields(
        {
            **_ATTEMPT,
            "reason": text_or_empty,
            "requeued_at_us": time_us,
            "cluster": text_or_empty,
            "failed_nodes": each_of_any("nodes", host_list),
        },
        _failed_somewhere,
    ),
    JobDeclined: fields(
        {
            **_ATTEMPT,
            "grant": quantity("grant"),
            "reason": text_or_empty,
            "declined_at_us": time_us,
        }
    ),
    JobSeized: fields(
        {**_ATTEMPT, "reason": text, "seized_at_us": time_us, "grant": if_known("grant")}
    ),
    JobCancelled: fields({"job_id": text, "reason": text_or_empty, "cancelled_at_us": time_us}),
    JobHeld: fields({"job_id": text, "reason": text_or_empty, "held_at_us": time_us}),
    JobReleased: fields({"job_id": text, "released_at_us": time_us}),
    JobActionDone: fields({**_ACTION, "done_at_us": time_us, "freq_ghz": if_known("freq_ghz")}),
    JobActionRefused: fields({**_ACTION, "reason": text_or_empty, "refused_at_us": time_us}),
    JobRequeueAsked: fields({**_ATTEMPT, "reason": text_or_empty, "asked_at_us": time_us}),
    JobSuspended: fields({"job_id": text, "reason": text_or_empty, "suspended_at_us": time_us}),
    JobResumed: fields({"job_id": text, "reason": text_or_empty, "resumed_at_us": time_us}),
    SignatureMeasured: _SIGNATURE,
    NodeSamples: fields(
        {"node": text, "cluster": text, "node_model": text, "samples": each("samples", _SAMPLE)}
    ),
    ShuttersMeasured: fields(
        {
            **_ATTEMPT,
            "co_runner_job_id": text,
            "app_id": text_or_empty,
            "co_runner_app_id": text_or_empty,
            "node_model": text_or_empty,
            "began_at_us": time_us,
            "ended_at_us": time_us,
            "shutters": each("shutters", _SHUTTER),
            "co_runners": if_known("co_runners"),
            "core_share": if_known("core_share"),
            "co_runner_core_share": if_known("co_runner_core_share"),
            "progress_source": anything,
        },
        ascending("began_at_us", "ended_at_us"),
    ),
    ClusterDeclared: fields(
        {
            "cluster": text,
            "site": text,
            "node_model": text,
            "nodes": quantity("nodes"),
            "cores_per_node": quantity("cores_per_node"),
            "pstates_ghz": each("pstates_ghz", quantity("pstates_ghz")),
            "idle_power_w": quantity("idle_power_w"),
            "peak_bandwidth_gbps": quantity("peak_bandwidth_gbps"),
            "memory_gib_per_node": if_known("memory_gib_per_node"),
            "architecture": text_or_empty,
            "node_names": each_of_any("node_names", anything),
            "node_classes": each_of_any("node_classes", _NODE_CLASS),
            "nameplate_power_w": if_known("nameplate_power_w"),
        }
    ),
    ClusterLost: fields({"cluster": text, "reason": text_or_empty, "lost_at_us": time_us}),
    ClusterReturned: fields({"cluster": text, "returned_at_us": time_us}),
    ClusterUndeclared: fields({"cluster": text, "reason": text, "undeclared_at_us": time_us}),
    NodesDrained: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "reason": text,
            "until_us": time_us_or_never,
            "drained_at_us": time_us,
        },
        ascending("drained_at_us", "until_us"),
        _host_lists,
    ),
    NodesResumed: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "reason": text_or_empty,
            "resumed_at_us": time_us,
        },
        _host_lists,
    ),
    ModelPinned: fields(
        {
            "model": _named(_TREES),
            "version": text_or_empty,
            "reason": text_or_empty,
            "pinned_at_us": time_us,
        }
    ),
    ModelRolledBack: fields(
        {
            "model": _named(_TREES),
            "reason": text_or_empty,
            "rolled_back_at_us": time_us,
        }
    ),
    PairsAllowed: fields(
        {
            "node_model": text_or_empty,
            "app_id": text_or_empty,
            "co_runner_app_id": text_or_empty,
            "reason": text_or_empty,
            "allowed_at_us": time_us,
        }
    ),
    TariffDeclared: fields(
        {
            "name": text,
            "version": quantity("attempt"),
            "from_us": time_us,
            "until_us": time_us_or_never,
            "model": one_of(PriceModel.items()),
            "points": each_of_any("points", _POINT),
            "rates": each("rates", _RATE),
            "hour_factors": each_of_any("hour_factors", text),
            "idle_w_per_core": text_or_empty,
            "node_failure": _or_unspecified(Payer.items()),
            "requeue": _or_unspecified(Payer.items()),
            "surcharge_share": text_or_empty,
            "surcharge_most_su": text_or_empty,
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        tariff_of,
    ),
    AllocationDeclared: fields(
        {
            "account": text,
            "allocated_su": text,
            "when_empty": one_of(WhenEmpty.items()),
            "reason": text_or_empty,
            "declared_at_us": time_us,
        },
        allocated_su,
    ),
    PeriodClosed: fields(
        {"until_us": time_us, "reason": text_or_empty, "closed_at_us": time_us}, require_past
    ),
    RepriceAsked: fields(
        {
            "tariff": text,
            "tariff_version": quantity("attempt"),
            "reason": text_or_empty,
            "asked_at_us": time_us,
        },
        require_finish,
    ),
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
            "reset": each_of_any("reset", _named(_SETTINGS)),
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
    PlanProposed: fields(
        {
            "based_at_us": time_us,
            "valid_until_us": time_us,
            "items": each_of_any("items", _PLAN_ITEM),
        },
        _plan,
    ),
    SignatureUpdated: fields(
        {
            "app_id": text,
            "node_model": text,
            "tpi_scale": text,
            "at": each("pstates_ghz", fields({**_METRICS, "count": quantity("count")})),
        }
    ),
    AppIdMismatch: fields(
        {
            "app_id": text,
            "node_model": text,
            "job_id": text_or_empty,
            "metrics": each_of_any("metrics", fields({"metric": text})),
            "measured": _SIGNATURE,
        }
    ),
    CoefficientsPublished: fields(
        {
            "node_model": text,
            "version": _version,
            "tpi_scale": text_or_empty,
            "pstates_ghz": each_of_any("pstates_ghz", quantity("pstates_ghz")),
            **{name: each_of_any("coefficients", quantity("coefficient")) for name in "abcdef"},
        }
    ),
    CoefficientsDeclared: fields(
        {
            "node_model": text,
            "tpi_scale": text,
            "pstates_ghz": each("pstates_ghz", quantity("pstates_ghz")),
            **{name: each("coefficients", quantity("coefficient")) for name in "abcdef"},
            "reason": text_or_empty,
            "declared_at_us": time_us,
        }
    ),
    PowerModelPublished: fields(
        {
            "version": _version,
            "trees": each_of_any(
                "trees", fields({"value": each("trees.value", quantity("samples.power_w"))})
            ),
            "fallback_power_w": _powers,
        },
    ),
    PowerHistoryUpdated: fields(
        {
            "version": _version,
            "number": quantity("number"),
            "node_model": text,
            "freq_ghz": quantity("freq_ghz"),
            "user": text,
            "app_id": text_or_empty,
            "size": text,
            "walltime_s": quantity("walltime_s"),
            "accelerators_w": if_known("accelerators_w"),
            "similar": each(
                "similar",
                fields(
                    {
                        "mean_log_w": each_of_any("mean_log_w", quantity("log_w")),
                        "newest_log_w": each_of_any("newest_log_w", quantity("log_w")),
                        "losses": each_of_any("losses", quantity("losses")),
                    }
                ),
            ),
            "alpha": quantity("alpha"),
            "highest_power_w": if_known("power_w"),
            "spreads_w": each_of_any("spreads_w", quantity("above_w")),
            "margins": each(
                "margins",
                fields({"above_w": quantity("above_w"), "above_share": quantity("above_share")}),
            ),
            "job_ids": each_of_any("job_ids", text),
            "powers_w": each_of_any("job_ids", quantity("power_w")),
        }
    ),
    NodePowerMeasured: fields(
        {
            "node": text,
            "cluster": text,
            "node_model": text,
            "power_w": quantity("samples.power_w"),
            "samples": _samples,
            "first_at_us": time_us,
            "last_at_us": time_us,
        }
    ),
    RunningPowerMeasured: fields(
        {
            **_ATTEMPT,
            "cluster": text,
            "freq_ghz": quantity("freq_ghz"),
            "node_power_w": quantity("power_w"),
            "measured_at_us": time_us,
        }
    ),
    NodeMetersRead: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "told_at_us": time_us,
            "node_power_mw": each_of_any("nodes", _reading_mw),
        }
    ),
    PowerTreesPublished: fields(_PUBLISHED_TREES),
    PowerTreesJudged: fields(_JUDGED),
    PowerTreesChosen: _CHOSEN_TREES,
    PairTreesPublished: fields(_PUBLISHED_PAIR_TREES),
    PairTreesJudged: fields({**_JUDGED, "error_of_weights": quantity("losses")}),
    PairTreesChosen: _CHOSEN_TREES,
    DegradationModelPublished: fields(
        {"version": _version, "weights": each_of_any("coefficients", quantity("coefficient"))}
    ),
    NodePowerPublished: fields(
        {"version": _version, "factors": each_of_any("nodes", quantity("factors"))}
    ),
}
_BY_NAME: Final[Mapping[str, Check]] = {
    kind.DESCRIPTOR.full_name: check for kind, check in _CHECKS.items()
}


def check_contents(message: Message) -> None:
    """Raise RejectedError, naming the field, for a message of impossible contents."""
    if message.ByteSize() > MOST_UNKNOWN_BYTES:
        _require_few_unknown(message)
    check = _BY_NAME.get(message.DESCRIPTOR.full_name)
    if check is not None:
        check(message)


def _require_few_unknown(message: Message) -> None:
    """Fields of a later version are carried and counted: by a stage after the other."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    size_bytes = message.ByteSize() - known.ByteSize()
    if size_bytes > MOST_UNKNOWN_BYTES:
        problem = f"fill {size_bytes} bytes, the limit is {MOST_UNKNOWN_BYTES}"
        raise RejectedError("fields that this version does not know", problem)


@cache
def time_fields(message: Descriptor) -> tuple[str, ...]:
    """The fields of a message that say when something happened."""
    return tuple(field.name for field in message.fields if field.name.endswith("_at_us"))


def times_us(message: Message) -> Iterator[tuple[str, int]]:
    """When a message says that something happened, by field."""
    for name in time_fields(message.DESCRIPTOR):
        yield name, getattr(message, name)
    if isinstance(message, NodeSamples):
        for index, sample in enumerate(message.samples):
            yield f"samples[{index}].time_us", sample.time_us
