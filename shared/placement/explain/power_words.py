"""Caps of power in words and messages: what is missing under them, and what is asked for them."""

from math import inf, isinf
from typing import Final

from coplace.v1.placement_pb2 import PowerShortage

from shared.domain.cluster import Cluster
from shared.domain.power import in_watts
from shared.domain.times import in_utc
from shared.placement.state.actions import Action, CapShortage, CauseKind
from shared.placement.state.caps import MESSAGES

# In whatever is said of a budget of power.
POWER_CAP: Final = "power cap"


def shortage_words(lacks: CapShortage, now_s: float) -> str:
    """Return in words which budget of power does not let a job start: what it needs, what there is,
    until when, and who declared the cap."""
    available_mw = lacks.available_mw
    left = f"{in_watts(available_mw)} left under the"
    if available_mw < 0:
        left = f"{in_watts(-available_mw)} more than is allowed is drawn under the"
    left = f"{left} {POWER_CAP} of {lacks.cap_subject}"
    since = f" from {in_utc(lacks.at_s)} on" if lacks.at_s > now_s else ""
    rest = f", beside the reservation of {lacks.reserved_for}" if lacks.reserved_for else ""
    until = "as long as it stays as declared"
    if not isinf(lacks.until_s):
        until = f"until {in_utc(lacks.until_s)}"
    needs = f"needs {in_watts(lacks.needed_mw)}"
    return f"{needs}, {left}{_declared_by(lacks)}{since}{rest}, {until}"


def nameplate_words(cluster: Cluster) -> str:
    """Return in words why nameplate power counts for a job, and what it follows from."""
    derived = ", derived from design powers," if cluster.nameplate_is_derived else ""
    watts = f"the nameplate of {cluster.most_node_w:,g} W a node{derived}"
    return f"nothing says what it draws: {watts} counts"


def excess_words(excess: CapShortage) -> str:
    """Return in words that more is committed under a cap than it allows."""
    silent = ""
    if excess.silent_nodes:
        silent = f"; meters of nodes are silent ({excess.silent_nodes:,}): nameplate power counts"
    return (
        f"{in_watts(excess.needed_mw)} are committed under the {POWER_CAP} of "
        f"{excess.cap_subject}{_declared_by(excess)}"
        f", which allows {in_watts(excess.available_mw)}{silent}"
    )


def cause_words(action: Action) -> str:
    """Return in words why something is asked of a running job."""
    cause = action.cause
    match cause.kind:
        case CauseKind.OVER_CAP:
            return "; ".join(map(excess_words, cause.caps))
        case CauseKind.WATTS_FOR_JOB:
            lacks = "; ".join(shortage_words(each, action.asked_s) for each in cause.caps)
            return f"so that {cause.text} may start, which {lacks}"
        case CauseKind.WATTS_RETURNED:
            return "caps of power allow it again"
        case CauseKind.REQUESTED | CauseKind.PUBLISHED:
            return cause.text


def action_words(action: Action) -> str:
    """Return in words what is asked of a running job, and why."""
    return f"{action.words}: {cause_words(action)}"


def write_shortage(message: PowerShortage, lacks: CapShortage) -> None:
    """Write a cap that refuses something into a message, in figures."""
    message.scope, message.name = MESSAGES[lacks.scope], lacks.name
    message.needed_w, message.available_w = lacks.needed_mw / 1000, lacks.available_mw / 1000
    message.at_us = round(lacks.at_s * 1e6)
    if lacks.until_s < inf:
        message.until_us = round(lacks.until_s * 1e6)
    message.reserved_for = lacks.reserved_for
    message.declared_by, message.reason = lacks.declared_by, lacks.reason


def _declared_by(cap: CapShortage) -> str:
    why = f": {cap.reason}" if cap.reason else ""
    return f" (declared by {cap.declared_by}{why})" if cap.declared_by else ""
