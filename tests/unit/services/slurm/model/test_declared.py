"""Reservations and licences are declared as `scontrol` shows them."""

import pytest
from coplace.v1.control_pb2 import LICENCE_SCOPE_CLUSTER, LICENCE_SCOPE_SITE, ReservationDeclared

from services.slurm.model.declared import licences_of, records_of, reservations_of
from shared.catalogue.contents.check import check_contents
from shared.slurm.clusters import ClusterMap

CLUSTERS = ClusterMap("gold", {"n1": "gold", "n2": "gold", "n3": "rome"})
LINE = (
    "ReservationName=school StartTime=1795903087 EndTime=1795906687 Duration=01:00:00 "
    "Nodes={nodes} NodeCnt=1 CoreCnt=2 Flags=SPEC_NODES Users={users} Groups=(null) "
    "Accounts={accounts} Licenses=(null) State=ACTIVE BurstBuffer=(null)\n"
)


def reserved(
    nodes: str = "n1", users: str = "ada", accounts: str = "(null)"
) -> list[ReservationDeclared]:
    """As ingest takes them."""
    said = LINE.format(nodes=nodes, users=users, accounts=accounts)
    found = list(reservations_of(records_of(said), CLUSTERS))
    for each in found:
        dated = ReservationDeclared(declared_at_us=1_795_903_000_000_000)
        dated.MergeFrom(each)
        check_contents(dated)
    return found


def test_a_reservation_is_declared_of_each_cluster_that_its_nodes_are_of() -> None:
    gold, rome = reserved("n[1-3]", "ada,bob", "physics")
    assert (gold.cluster, *gold.nodes) == ("gold", "n[1-2]")
    assert (rome.cluster, *rome.nodes) == ("rome", "n3")
    assert (gold.name, [*gold.users], [*gold.accounts]) == ("school", ["ada", "bob"], ["physics"])
    assert (gold.from_us, gold.until_us) == (1_795_903_087_000_000, 1_795_906_687_000_000)


@pytest.mark.parametrize(("users", "accounts"), [("-ada", "(null)"), ("ada", "-physics")])
def test_a_reservation_for_all_but_some_is_for_nobody(users: str, accounts: str) -> None:
    [found] = reserved(users=users, accounts=accounts)
    assert (list(found.users), list(found.accounts)) == ([], [])


@pytest.mark.parametrize("said", ["", "No reservations in the system\n", LINE, "a=b c=d\n"])
def test_what_is_no_reservation_is_left_out(said: str) -> None:
    assert list(reservations_of(records_of(said), CLUSTERS)) == []
    assert reserved(nodes="(null)") == reserved(nodes="n[") == reserved(nodes="x9") == []


def test_licences_are_of_the_cluster_or_of_the_site_of_a_slurm_that_is_several() -> None:
    said = "LicenseName=matlab Total=4 Used=0 Free=4 Reserved=0 Remote=no\nLicenseName=x Total=?\n"
    [one] = licences_of(records_of(said), "north", ["gold"])
    [several] = licences_of(records_of(said), "north", ["gold", "rome"])
    assert (one.scope, one.place, one.name, one.count) == (
        *(LICENCE_SCOPE_CLUSTER, "gold", "matlab"),
        4,
    )
    assert (several.scope, several.place) == (LICENCE_SCOPE_SITE, "north")
