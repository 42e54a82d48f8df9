"""Licences in words: those that a start lacks, with the jobs that hold them, and those that a job
never gets."""

from collections.abc import Callable, Sequence
from math import isinf
from typing import Final

from coplace.v1.placement_pb2 import CONSTRAINT_KIND_LICENCES, CONSTRAINT_KIND_LICENCES_LACKING

from shared.domain.times import in_utc
from shared.placement.decide.pending_reason import LicencesLacking
from shared.placement.explain.constraints import Constraint
from shared.scheduling.licences import LicenceShortage
from shared.scheduling.power import Shortage

LICENCES: Final = "licences"
# Jobs that a reason names of those that hold some.
_MOST_NAMED: Final = 3

# Returns the id of the job of an arrival number.
IdOf = Callable[[int], str]


def licences_missing(shortages: Sequence[LicenceShortage], id_of: IdOf, now_s: float) -> Constraint:
    """Return all licences that refuse an entry, with the figures of those that let it start
    last."""
    last = shortages[0]
    for each in shortages:
        if each.shortage.until_s > last.shortage.until_s:
            last = each
    words = "; ".join([_missing_words(each, id_of, now_s) for each in shortages])
    needed, available, until_s = last.shortage.needed_mw, last.shortage.available_mw, 0.0
    if not isinf(last.shortage.until_s):
        until_s = last.shortage.until_s
    figures = needed, max(available, 0), LICENCES, until_s, last.name
    return Constraint(CONSTRAINT_KIND_LICENCES, words, *figures)


def licences_lacking(reason: LicencesLacking) -> Constraint:
    """Return that a job needs more licences than a cluster can ever give it, and what to do."""
    cluster, name, needed, total = reason.cluster, reason.name, reason.needed, reason.total
    if total is None:
        words = f"needs {needed} {name}, and no licences of that name are declared for {cluster}"
        words = f"{words}: declare them, or cancel the job"
    else:
        words = f"needs {needed} {name}, and {cluster} can give a job {total} in all"
        words = f"{words}: cancel the job, or declare more"
    return Constraint(CONSTRAINT_KIND_LICENCES_LACKING, words, needed, total, LICENCES, by=name)


def _missing_words(lacks: LicenceShortage, id_of: IdOf, now_s: float) -> str:
    shortage = lacks.shortage
    total, since = shortage.cap.limit_mw(now_s), ""
    if shortage.at_s > now_s:
        since = f" from {in_utc(shortage.at_s)} on"
    left = f"{max(shortage.available_mw, 0)} of {total} of {shortage.cap.subject} free{since}"
    words = f"needs {shortage.needed_mw} {lacks.name}, {left}"
    if shortage.reserved_for >= 0:
        words = f"{words} beside the reservation of {id_of(shortage.reserved_for)}"
    if lacks.holders:
        words = f"{words}, held by {_holders(lacks.holders, id_of)}"
    return f"{words}, {_until(shortage)}"


def _holders(holders: Sequence[tuple[int, int]], id_of: IdOf) -> str:
    named = [f"{id_of(arrival)} ({count})" for arrival, count in holders[:_MOST_NAMED]]
    rest = holders[_MOST_NAMED:]
    more = f" and {len(rest)} more ({sum(count for _, count in rest)})" if rest else ""
    return ", ".join(named) + more


def _until(shortage: Shortage) -> str:
    if isinf(shortage.until_s):
        return "as long as they stay as declared"
    return f"until {in_utc(shortage.until_s)}"
