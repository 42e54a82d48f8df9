"""Publishes the reservations and licences of a Slurm."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import structlog
from coplace.v1.control_pb2 import LicencesDeclared, ReservationDeclared, ReservationRemoved

from coplace_client.calls import UnansweredError
from coplace_client.facts import fact
from services.slurm.adapters.region import AskedRegion
from shared.process.clock import now_us

_Declared = TypeVar("_Declared", LicencesDeclared, ReservationDeclared)
_Key = tuple[str, str]

log = structlog.get_logger(__name__)


class DeclaredBySlurm:
    """Declares what Slurm shows and placement has otherwise, each once, and removes what Slurm
    shows no more and this source declared: what others declared is theirs."""

    def __init__(self, region: AskedRegion, source: str, clusters: Iterable[str]) -> None:
        self._region, self._source, self._clusters = region, source, list(clusters)
        self._sent: dict[_Key, LicencesDeclared | ReservationDeclared] = {}

    def declare_reservations(self, shown: Iterable[ReservationDeclared]) -> None:
        """Declare them, and remove those that are not among them. Raises UnansweredError."""
        listed = [each for name in self._clusters for each in self._region.reservations(name)]
        known = {
            _key(each.reservation): _undated(each.reservation)
            for each in listed
            if each.declared_by == self._source
        }
        wanted = {_key(each): each for each in shown}
        self._declare(wanted, known)
        for key, each in known.items():
            if key not in wanted and each.until_us > now_us():
                at_us = now_us()
                gone = ReservationRemoved(
                    cluster=each.cluster,
                    name=each.name,
                    reason="Slurm has it no more",
                    removed_at_us=at_us,
                )
                self._publish(key, gone, at_us)

    def declare_licences(self, shown: Iterable[LicencesDeclared]) -> None:
        """Declare them, and remove those that are not among them. Raises UnansweredError."""
        known = {
            _key(each.licences): _undated(each.licences)
            for each in self._region.licences()
            if each.declared_by == self._source
        }
        wanted = {_key(each): each for each in shown}
        self._declare(wanted, known)
        for key, each in known.items():
            if key not in wanted and each.HasField("count"):
                gone = LicencesDeclared(scope=each.scope, place=each.place, name=each.name)
                gone.declared_at_us = at_us = now_us()
                self._publish(key, gone, at_us)

    def _declare(self, wanted: Mapping[_Key, _Declared], known: Mapping[_Key, _Declared]) -> None:
        for key, each in wanted.items():
            if each in (known.get(key), self._sent.get(key)):
                continue
            self._sent[key] = each
            dated = type(each)()
            dated.CopyFrom(each)
            dated.declared_at_us = at_us = now_us()
            self._publish(key, dated, at_us)

    def _publish(
        self,
        key: _Key,
        what: LicencesDeclared | ReservationDeclared | ReservationRemoved,
        at_us: int,
    ) -> None:
        try:
            self._region.publish(fact(self._source, what, f"{'/'.join(key)}/{at_us}", at_us))
        except UnansweredError as error:
            self._sent.pop(key, None)
            if not error.is_refusal:
                raise
            log.warning("not declared", what=what.DESCRIPTOR.name, of=key, problem=str(error))


def _key(declared: LicencesDeclared | ReservationDeclared) -> _Key:
    where = (
        declared.cluster
        if isinstance(declared, ReservationDeclared)
        else f"licence {declared.place}"
    )
    return where, declared.name


def _undated(declared: _Declared) -> _Declared:
    found = type(declared)()
    found.CopyFrom(declared)
    found.ClearField("declared_at_us")
    return found
