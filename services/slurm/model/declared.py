"""Reservations and licences of a Slurm, as `scontrol show` has them in every release: pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_SITE,
    LicencesDeclared,
    ReservationDeclared,
)

from coplace_client.bounds import LENGTHS
from coplace_client.errors import RejectedError
from shared.domain.folding import fold
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.slurm.clusters import ClusterMap

_FIELD: Final = re.compile(r"(\w+)=(\S*)")
_NONE: Final = frozenset({"", "(null)"})
_SECOND_US: Final = 1_000_000
_MOST_NAMED: Final = LENGTHS["allowed"].most


def records_of(said: str) -> list[dict[str, str]]:
    """Return the records of `scontrol show ... --oneliner`."""
    found = (dict(_FIELD.findall(line)) for line in said.splitlines())
    return [record for record in found if record]


def reservations_of(
    records: Iterable[Mapping[str, str]], clusters: ClusterMap
) -> Iterator[ReservationDeclared]:
    """Yield the reservations that have nodes, one a cluster. One whose users and accounts have no
    equal, as those that it is not for, is for nobody."""
    for record in records:
        try:
            yield from _of_clusters(record, clusters)
        except (RejectedError, ValueError, KeyError):
            continue


def _of_clusters(record: Mapping[str, str], clusters: ClusterMap) -> Iterator[ReservationDeclared]:
    by_cluster: dict[str, list[str]] = {}
    nodes = record["Nodes"]
    for node in expand(nodes) if nodes not in _NONE else ():
        if node in clusters.of_node:
            by_cluster.setdefault(clusters.of_node[node], []).append(node)
    users, accounts = (_named(record, field) for field in ("Users", "Accounts"))
    has_equal = users is not None and accounts is not None and record.get("Groups", "") in _NONE
    for cluster, names in by_cluster.items():
        yield ReservationDeclared(
            cluster=cluster,
            name=record["ReservationName"],
            nodes=fold(names),
            from_us=int(record["StartTime"]) * _SECOND_US,
            until_us=int(record["EndTime"]) * _SECOND_US,
            users=users if has_equal else (),
            accounts=accounts if has_equal else (),
            reason=printable(f"reservation of Slurm, {record.get('Flags', '')}"),
        )


def _named(record: Mapping[str, str], field: str) -> list[str] | None:
    """Those that a reservation is for; None where it names those that it is not for, or too
    many."""
    said = record.get(field, "")
    names = [] if said in _NONE else said.split(",")
    is_deny_list = any(name.startswith("-") for name in names)
    return None if is_deny_list or len(names) > _MOST_NAMED else names


def licences_of(
    records: Iterable[Mapping[str, str]], site: str, clusters: Iterable[str]
) -> Iterator[LicencesDeclared]:
    """Yield the licences of a Slurm: of its cluster, or of its site where it is several."""
    names = list(clusters)
    is_one = len(names) == 1
    for record in records:
        if record.get("LicenseName") and record.get("Total", "").isdecimal():
            yield LicencesDeclared(
                scope=LICENCE_SCOPE_CLUSTER if is_one else LICENCE_SCOPE_SITE,
                place=names[0] if is_one else site,
                name=record["LicenseName"],
                count=int(record["Total"]),
                reason="licences of Slurm",
            )
