"""Declares limits of a Slurm that placement keeps too."""

from collections.abc import Iterable, Mapping, Sequence

import structlog
from coplace.v1.control_pb2 import LimitsDeclared

from coplace_client.facts import fact
from services.slurm.adapters.commands import Slurm
from services.slurm.adapters.limited import LimitedStarts
from services.slurm.adapters.region import AskedRegion
from services.slurm.adapters.sending import send
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.limits import ASSOCIATION_FIELDS, QOS_FIELDS, enforces_limits, limits_of
from shared.process.clock import now_us

_Key = tuple[int, str, int]

log = structlog.get_logger(__name__)


def limits_in(slurm: Slurm, name: str, site: str) -> list[LimitsDeclared]:
    """Return the limits of the Slurm of this name that have an equal: they hold at its site. Raises
    SlurmError."""
    of_it = ("show", "associations", f"cluster={name}", ASSOCIATION_FIELDS)
    qos = slurm.table("sacctmgr", "show", "qos", QOS_FIELDS)
    return limits_of(qos, slurm.table("sacctmgr", *of_it), site)


class LimitsBySlurm:
    """Declares limits of a site that placement has otherwise, each once, and takes away those that
    this source declared and Slurm has no more. Where others declared one, that stays."""

    def __init__(self, region: AskedRegion, source: str, site: str) -> None:
        self._region, self._source, self._site = region, source, site
        self._sent: dict[_Key, LimitsDeclared] = {}
        self._noted: dict[_Key, str] = {}

    def declare(self, shown: Iterable[LimitsDeclared]) -> None:
        """Declare them. Raises UnansweredError."""
        listed = list(self._region.limits(self._site))
        known = {
            _key(each.limit): each.limit for each in listed if each.declared_by == self._source
        }
        others = {
            _key(each.limit): each.declared_by
            for each in listed
            if each.declared_by != self._source
        }
        wanted = {_key(each): each for each in shown}
        saying = []
        for key, each in wanted.items():
            if key in others:
                self._note(key, f"{others[key]} declared another one")
            elif each not in (known.get(key), self._sent.get(key)):
                saying.append(each)
        gone = [
            LimitsDeclared(subject=each.subject, name=each.name, each=each.each, site=self._site)
            for key, each in known.items()
            if key not in wanted
        ]
        saying += [each for each in gone if self._sent.get(_key(each)) != each]
        self._publish(saying)

    def _publish(self, saying: list[LimitsDeclared]) -> None:
        at_us = now_us()
        events = [
            fact(self._source, each, "/".join(map(str, (*_key(each), at_us))), at_us)
            for each in saying
        ]
        refused = send(self._region, events) if events else {}
        for at, each in enumerate(saying):
            self._sent[_key(each)] = each
            if at in refused:
                self._note(_key(each), refused[at])

    def _note(self, key: _Key, problem: str) -> None:
        """Say it once, as long as it stays so."""
        if self._noted.get(key) != problem:
            self._noted[key] = problem
            log.warning("limit not declared", of=key[1], problem=problem)


class LimitWatch:
    """Reads the limits of a Slurm that enforces some, from slurmdbd alone."""

    def __init__(
        self,
        slurm: Slurm,
        config: Mapping[str, str],
        declared: LimitsBySlurm,
        limited: LimitedStarts,
        site: str,
    ) -> None:
        self._slurm, self._declared, self._limited = slurm, declared, limited
        self._site = site
        self._enforces, self._cluster = enforces_limits(config), config["ClusterName"]
        self._before: Sequence[Sequence[str]] | None = None
        self._has_recalled = False

    def look(self, shown: Sequence[SlurmJob]) -> None:
        """Let jobs in again where that may help, and declare the limits. Raises SlurmError and
        UnansweredError."""
        limits = limits_in(self._slurm, self._cluster, self._site) if self._enforces else []
        if self._enforces and shown and not self._has_recalled:
            self._limited.recall(shown)
            self._has_recalled = True
        self._let_in(shown)
        # The last, since not everybody may ask for the limits of a site.
        self._declared.declare(limits)

    def _let_in(self, shown: Sequence[SlurmJob]) -> None:
        if not self._limited.has_declined:
            self._before = None
            return
        # Those too that have no equal.
        of_cluster = ("show", "associations", f"cluster={self._cluster}")
        rows = [
            *self._slurm.table("sacctmgr", "show", "qos"),
            *self._slurm.table("sacctmgr", *of_cluster),
        ]
        changed = self._before is not None and rows != self._before
        self._before = rows
        self._limited.let_in(shown, limits_changed=changed)


def _key(limit: LimitsDeclared) -> _Key:
    return limit.subject, limit.name, limit.each
