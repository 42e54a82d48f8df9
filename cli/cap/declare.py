"""Declare caps of power: placement is asked first what they would be of."""

from collections.abc import Sequence
from typing import Final

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import PowerStanding, ShowPowerRequest, ShowPowerResponse
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli.asking import asking
from cli.times import format_utc
from coplace_client.bounds import POWER_CAP_W
from coplace_client.errors import UnusableError
from coplace_client.facts import fact
from shared.domain.power import unrated_words

REGION: Final = "region"
_WITHIN_S: Final = 60.0
_SCOPES: Final = {
    POWER_SCOPE_CLUSTER: "cluster",
    POWER_SCOPE_SITE: "site",
    POWER_SCOPE_REGION: REGION,
}


class WrongCapError(UnusableError):
    """Placement would refuse the cap."""


def ask(placement: str) -> ShowPowerResponse:
    """Ask placement what may be drawn and what is drawn. Raises UnansweredError."""
    with asking(placement) as channel:
        return PlacementServiceStub(channel).ShowPower(ShowPowerRequest(), timeout=_WITHIN_S)


def subject(standing: PowerStanding) -> str:
    """Return the name of what a cap limits, as commands take it."""
    scope = _SCOPES[standing.scope]
    return f"{scope} {standing.name}" if standing.name else scope


def find_state(answer: ShowPowerResponse, name: str) -> PowerStanding:
    """Return the state of power of a name: a cluster, a site, `region`, or `site NAME` where a
    cluster has its name.

    Raises WrongCapError for what placement does not know, and for a name of two.
    """
    named = [one for one in answer.standings if name in (subject(one), one.name or REGION)]
    if not named:
        known = ", ".join(map(subject, answer.standings))
        raise WrongCapError(f"{name[:80]!r} is neither a cluster nor a site: known are {known}")
    if len(named) > 1:
        several = " or ".join(f"'{subject(one)}'" for one in named)
        raise WrongCapError(f"{name!r} is ambiguous: give {several}")
    return named[0]


def declaration(
    standing: PowerStanding, steps: Sequence[PowerCapStep], reason: str, source: str, now_us: int
) -> Envelope:
    """Return the event that declares a cap. Raises WrongCapError for one below the idle power, or
    over clusters that do not say what their nodes draw at most, and RejectedError for watts that
    no cap has, such as 0."""
    for step in steps:
        if step.HasField("watts"):
            POWER_CAP_W.require(f"the cap of {subject(standing)}", step.watts)
        if step.HasField("watts") and step.watts < standing.idle_w:
            raise WrongCapError(
                f"{step.watts:,g} W is below the idle power of {subject(standing)}, "
                f"{standing.idle_w:,g} W: nothing would start"
            )
    if standing.unrated_clusters and any(step.HasField("watts") for step in steps):
        first, *others = map(unrated_words, standing.unrated_clusters)
        more = f"; nor do {len(others)} more" if others else ""
        raise WrongCapError(f"{first}{more}: declare one first, so that a cap can hold")
    declared = PowerCapDeclared(
        scope=standing.scope,
        name=standing.name,
        steps=steps,
        reason=reason,
        declared_at_us=now_us,
    )
    return fact(source, declared, f"{subject(standing)}/{now_us}", now_us)


def describe_step(step: PowerCapStep) -> str:
    """Return a step in words: the cap, and its start."""
    return f"{watts(step)} from {format_utc(step.from_us)} on"


def describe_state(standing: PowerStanding) -> str:
    """Return in words what placement has of a subject: its cap, whose word that is, and how many
    steps are ahead."""
    cap = f"{standing.cap_w:,g} W" if standing.HasField("cap_w") else "no cap"
    at = format_utc(standing.declared_at_us)
    by = f", by {standing.declared_by} at {at}" if standing.declared_by else ""
    ahead = f", and {len(standing.ahead)} steps ahead" if standing.ahead else ""
    return f"{cap}{by}{ahead}"


def watts(step: PowerCapStep) -> str:
    """Return the cap of a step in words: in W, or that there is none."""
    return f"{step.watts:,g} W" if step.HasField("watts") else "no cap"
