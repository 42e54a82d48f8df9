"""What Slurm shows is declared once, and removed when it shows it no more."""

import grpc
from coplace.v1.control_pb2 import LICENCE_SCOPE_CLUSTER, LicencesDeclared, ReservationDeclared
from coplace.v1.placement_service_pb2 import ListedLicences, ListedReservation
from structlog.testing import capture_logs

from services.slurm.adapters.declared import DeclaredBySlurm
from tests.unit.services.slurm.region import PlayedRegion, unanswered

# Of the year 2100.
LATE_US = 4_102_444_800_000_000
SCHOOL = ReservationDeclared(
    cluster="alpha", name="school", nodes=["n1"], from_us=1_795_903_087_000_000, until_us=LATE_US
)
MATLAB = LicencesDeclared(scope=LICENCE_SCOPE_CLUSTER, place="alpha", name="matlab", count=4)


class Region(PlayedRegion):
    """Knows what it took, as placement does a moment later."""

    def settle(self) -> None:
        for event in self.told:
            by = event.source
            if event.HasField("reservation_declared"):
                listed = ListedReservation(reservation=event.reservation_declared, declared_by=by)
                self.reserved = [listed]
            elif event.HasField("reservation_removed"):
                self.reserved = []
            else:
                listed_ = ListedLicences(licences=event.licences_declared, declared_by=by)
                self.licensed = [listed_]
        self.told.clear()


def kinds(region: PlayedRegion) -> list[str | None]:
    return [event.WhichOneof("payload") for event in region.told]


def test_a_reservation_is_declared_once_and_removed_when_slurm_shows_it_no_more() -> None:
    region = Region()
    declared = DeclaredBySlurm(region, "north/alpha", ["alpha"])
    declared.declare_reservations([SCHOOL])
    declared.declare_reservations([SCHOOL])
    assert kinds(region) == ["reservation_declared"]
    region.settle()
    DeclaredBySlurm(region, "north/alpha", ["alpha"]).declare_reservations([SCHOOL])
    assert kinds(region) == [], "a process that was started anew knows it by placement"
    declared.declare_reservations([])
    assert kinds(region) == ["reservation_removed"]


def test_licences_are_declared_where_their_number_changes_and_removed() -> None:
    region = Region()
    declared = DeclaredBySlurm(region, "north/alpha", ["alpha"])
    fewer = LicencesDeclared(scope=MATLAB.scope, place="alpha", name="matlab", count=3)
    counts = []
    for shown in ([MATLAB], [MATLAB], [fewer], [], []):
        declared.declare_licences(shown)
        counts.append([e.licences_declared.count or None for e in region.told])
        region.settle()
    assert counts == [[4], [], [3], [None], []]


def test_what_others_declared_stays() -> None:
    region = Region()
    region.reserved = [ListedReservation(reservation=SCHOOL, declared_by="olga")]
    region.licensed = [ListedLicences(licences=MATLAB, declared_by="olga")]
    declared = DeclaredBySlurm(region, "north/alpha", ["alpha"])
    declared.declare_reservations([])
    declared.declare_licences([])
    assert region.told == []


def test_a_declaration_that_ingest_refuses_keeps_no_other_from_being_made() -> None:
    region = Region()
    region.failures = [unanswered(grpc.StatusCode.INVALID_ARGUMENT, "no")]
    other = ReservationDeclared()
    other.CopyFrom(SCHOOL)
    other.name = "course"
    with capture_logs() as logs:
        declared = DeclaredBySlurm(region, "north/alpha", ["alpha"])
        declared.declare_reservations([SCHOOL, other])
    assert [event.reservation_declared.name for event in region.told] == ["course"]
    assert len(logs) == 1
