"""Project over a real channel, with an application database that the test fills."""

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from coplace.v1.energy_pb2 import SignatureAt
from coplace.v1.energy_service_pb2 import (
    GivenSignature,
    Projection,
    ProjectionSubject,
    ProjectRequest,
)
from coplace.v1.energy_service_pb2_grpc import EnergyServiceStub

from tests.unit.services import calls
from tests.unit.services.energy.api.appdb import PSTATES_GHZ, SCALE, AppDB, coefficients, serving

if TYPE_CHECKING:
    from coplace.v1.energy_service_pb2_grpc import EnergyServiceAsyncStub


def of(*app_ids: str) -> list[ProjectionSubject]:
    """Applications of the database."""
    return [ProjectionSubject(app_id=app_id) for app_id in app_ids]


def given(node_model: str = "gold", tpi_scale: str = SCALE, **changes: float) -> ProjectionSubject:
    """A signature of the caller's own."""
    at = SignatureAt(freq_ghz=3.1, time_s=10, power_w=310, cpi=1)
    for name, value in changes.items():
        setattr(at, name, value)
    signature = GivenSignature(app_id="mine", node_model=node_model, tpi_scale=tpi_scale, at=at)
    return ProjectionSubject(signature=signature)


async def ask(
    appdb: AppDB, request: ProjectRequest, crashes: list[Exception] | None = None
) -> Sequence[Projection]:
    """What the service answers."""
    async with serving(appdb, [] if crashes is None else crashes) as channel:
        stub: EnergyServiceAsyncStub = EnergyServiceStub(channel)
        response = await stub.Project(request, timeout=10)
    return response.projections


async def refusal(appdb: AppDB, request: ProjectRequest) -> str:
    """What the service has against a request."""
    code, why = await calls.refusal(ask(appdb, request))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    return why


@pytest.fixture
def appdb() -> AppDB:
    """Two node models; hpcg ran on both, lu on one."""
    found = AppDB()
    found.learn(coefficients(), coefficients("platinum", "platinum@7", (1.2, 2.7)))
    found.measure("hpcg")
    found.measure("hpcg", "platinum", freq_ghz=2.7)
    found.measure("lu")
    return found


async def test_every_pstate_of_every_node_model_is_projected_by_default(appdb: AppDB) -> None:
    found = await ask(appdb, ProjectRequest(subjects=of("hpcg")))
    assert [(one.node_model, tuple(one.freq_ghz)) for one in found] == [
        ("gold", PSTATES_GHZ),
        ("platinum", (1.2, 2.7)),
    ]
    gold = found[0]
    assert (gold.app_id, gold.coefficients_version, gold.from_ghz) == ("hpcg", "gold@1", 3.1)
    assert list(gold.power_w) == pytest.approx([300 * ghz / 3.1 for ghz in PSTATES_GHZ])
    assert list(gold.time_s) == pytest.approx([50 * 3.1 / ghz for ghz in PSTATES_GHZ])
    assert list(gold.energy_j) == pytest.approx([15_000.0] * 3)
    assert list(gold.is_indirect) == [False] * 3
    assert not gold.gaps


async def test_answers_come_by_subject_then_node_model_as_they_were_asked(appdb: AppDB) -> None:
    request = ProjectRequest(subjects=of("lu", "hpcg"), node_models=["platinum", "gold"])
    found = await ask(appdb, request)
    assert [(one.subject, one.app_id, one.node_model) for one in found] == [
        (0, "lu", "platinum"),
        (0, "lu", "gold"),
        (1, "hpcg", "platinum"),
        (1, "hpcg", "gold"),
    ]


async def test_asked_pstates_come_in_their_order_and_what_a_model_has_not_is_a_gap(
    appdb: AppDB,
) -> None:
    request = ProjectRequest(subjects=of("hpcg"), node_models=["platinum"], pstates_ghz=[2.7, 2.0])
    [found] = await ask(appdb, request)
    assert list(found.freq_ghz) == [2.7]
    [gap] = found.gaps
    assert (gap.reason, list(gap.freq_ghz)) == ("the node model has no such P-state", [2.0])


async def test_a_pair_that_was_never_measured_is_a_gap_that_is_crossed_when_asked(
    appdb: AppDB,
) -> None:
    appdb.learn(coefficients(never_measured=frozenset({(2, 0)})))
    request = ProjectRequest(subjects=of("lu"), node_models=["gold"])
    [found] = await ask(appdb, request)
    assert list(found.freq_ghz) == [2.0, 3.1]
    [gap] = found.gaps
    assert "never measured" in gap.reason
    assert list(gap.freq_ghz) == [1.2]
    request.via_intermediate = True
    [found] = await ask(appdb, request)
    assert list(found.is_indirect) == [True, False, False]
    assert list(found.power_w) == pytest.approx([300 * ghz / 3.1 for ghz in PSTATES_GHZ])


async def test_deviations_are_reported_where_the_coefficients_have_them(appdb: AppDB) -> None:
    message = coefficients(never_measured=frozenset({(2, 0)}))
    deviations = [0.0, nan, nan, nan, 0.0, nan, nan, 0.03, 0.0]
    message.time_sd.extend(deviations)
    message.power_sd.extend(2 * sd for sd in deviations)
    appdb.learn(message)
    request = ProjectRequest(subjects=of("lu", "hpcg"))
    gold, platinum = (await ask(appdb, request))[0], (await ask(appdb, request))[3]
    assert list(gold.time_sd) == [0.03, 0.0]
    assert list(gold.power_sd) == [0.06, 0.0]
    assert platinum.freq_ghz
    assert not platinum.time_sd


async def test_an_application_without_a_row_is_reported_so_at_every_pstate(appdb: AppDB) -> None:
    found = await ask(appdb, ProjectRequest(subjects=of("lu", "stream")))
    absent = [(one.app_id, one.node_model) for one in found if not one.freq_ghz]
    assert absent == [("lu", "platinum"), ("stream", "gold"), ("stream", "platinum")]
    [gap] = found[2].gaps
    assert gap.reason == "the application has no signature on the node model"
    assert tuple(gap.freq_ghz) == PSTATES_GHZ
    assert found[2].from_ghz == 0


@pytest.mark.parametrize(
    ("lu", "node_model", "words"),
    [
        ({"tpi_scale": "eamc-2020"}, "gold", ["eamc-2020", SCALE]),
        ({"freq_ghz": 3.05}, "gold", ["3.05 GHz"]),
        ({}, "epyc", ["no coefficients of epyc"]),
    ],
    ids=["another unit of TPI", "at none of its P-states", "no coefficients"],
)
async def test_what_a_row_cannot_be_projected_by_is_a_gap_that_names_it(
    appdb: AppDB, lu: dict[str, Any], node_model: str, words: list[str]
) -> None:
    appdb.measure("lu", **lu)
    [found] = await ask(appdb, ProjectRequest(subjects=of("lu"), node_models=[node_model]))
    assert not found.freq_ghz
    assert all(word in found.gaps[0].reason for word in words)
    assert bool(found.coefficients_version) == (node_model == "gold")


async def test_a_signature_of_the_callers_own_is_projected_on_its_node_model(
    appdb: AppDB,
) -> None:
    gold, platinum = await ask(appdb, ProjectRequest(subjects=[given()]))
    assert (gold.app_id, gold.from_ghz) == ("mine", 3.1)
    assert list(gold.power_w) == pytest.approx([120, 200, 310])
    assert not platinum.freq_ghz


async def test_new_coefficients_are_used_at_once(appdb: AppDB) -> None:
    crashes: list[Exception] = []
    request = ProjectRequest(subjects=of("lu"), node_models=["gold"])
    async with serving(appdb, crashes) as channel:
        stub: EnergyServiceAsyncStub = EnergyServiceStub(channel)
        versions = []
        for version in ("gold@1", "gold@1", "gold@2"):
            appdb.learn(coefficients(version=version))
            response = await stub.Project(request, timeout=10)
            versions.append(response.projections[0].coefficients_version)
    assert versions == ["gold@1", "gold@1", "gold@2"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ProjectRequest(), "subjects"),
        (ProjectRequest(subjects=[ProjectionSubject()]), "subjects[0]"),
        (ProjectRequest(subjects=of("lu", "")), "subjects[1].app_id"),
        (ProjectRequest(subjects=of("lu"), node_models=[""]), "node_models[0]"),
        (ProjectRequest(subjects=of("lu"), node_models=["gold", "gold"]), "node_models"),
        (ProjectRequest(subjects=of("lu"), pstates_ghz=[1.2, nan]), "pstates_ghz[1]"),
        (ProjectRequest(subjects=of("lu"), pstates_ghz=[1.2, 1.2]), "pstates_ghz"),
        (ProjectRequest(subjects=of("lu"), pstates_ghz=range(1, 102)), "pstates_ghz"),
        (ProjectRequest(subjects=[given(cpi=0.0)]), "subjects[0].signature.at.cpi"),
        (ProjectRequest(subjects=[given(power_w=-1.0)]), "subjects[0].signature.at.power_w"),
        (ProjectRequest(subjects=[given(time_s=nan)]), "subjects[0].signature.at.time_s"),
        (ProjectRequest(subjects=[given(node_model="")]), "subjects[0].signature.node_model"),
        (ProjectRequest(subjects=[given(tpi_scale="x")]), "subjects[0].signature.tpi_scale"),
        (ProjectRequest(subjects=[given(freq_ghz=3.05)]), "subjects[0].signature.at.freq_ghz"),
    ],
)
async def test_bad_input_is_refused_with_the_name_of_its_field(
    appdb: AppDB, request_: ProjectRequest, field: str
) -> None:
    assert (await refusal(appdb, request_)).startswith(f"{field}: ")


async def test_more_points_than_one_call_may_have_are_refused_with_the_limit(
    appdb: AppDB,
) -> None:
    reason = await refusal(appdb, ProjectRequest(subjects=of(*["lu"] * 201)))
    assert reason.startswith("subjects: 201 on 2 node models ask for 1005 points")
    assert len(await ask(appdb, ProjectRequest(subjects=of(*["lu"] * 200)))) == 400
    unknown = [f"m{number}" for number in range(50)]
    await refusal(appdb, ProjectRequest(subjects=of(*["lu"] * 21), node_models=unknown))


async def test_what_is_no_protobuf_is_refused(appdb: AppDB) -> None:
    async with serving(appdb, []) as channel:
        method = "/coplace.v1.EnergyService/Project"
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        code, _ = await calls.refusal(call(b"\xff\xff", timeout=10))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_failure_that_is_no_fault_of_the_caller_ends_the_process(appdb: AppDB) -> None:
    appdb.fails_with = ConnectionError("the cache is down")
    crashes: list[Exception] = []
    await calls.refusal(ask(appdb, ProjectRequest(subjects=of("lu")), crashes))
    assert crashes == [appdb.fails_with]
