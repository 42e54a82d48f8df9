"""Every charge can be computed again from what it carries."""

from decimal import Decimal

import pytest
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.models.shutters import Interference
from shared.pricing.charge import (
    AttemptEnd,
    ChargeRevision,
    audit,
    charge_message,
    recompute,
    usage_of,
)
from shared.pricing.model import CoRun, evidence
from tests.support.messaging import START_US
from tests.unit.services.pricing.support import finished


@st.composite
def charges(draw: st.DrawFn) -> ChargeMade:
    runtime_us = draw(st.integers(1, 10**13))
    nodes, cores_per_node = draw(st.integers(1, 1000)), draw(st.integers(1, 256))
    ended = finished(
        nodes=nodes,
        cores_per_node=cores_per_node,
        cores=draw(st.integers(0, nodes * cores_per_node)),
        ended_at_us=START_US + runtime_us,
    )
    usage = usage_of(ended)
    offsets = st.integers(0, runtime_us)
    runs = [
        CoRun(name, START_US + min(a, b), START_US + max(a, b), Interference(ratio, 1, 1))
        for name, a, b, ratio in draw(
            st.lists(
                st.tuples(st.sampled_from("xyz"), offsets, offsets, st.floats(1, 20)), max_size=6
            )
        )
    ]
    rate = draw(st.decimals(Decimal("1e-9"), Decimal("0.1"), places=12))
    return charge_message(
        AttemptEnd(ended), ChargeRevision(1, START_US + runtime_us), rate, evidence(runs, usage)
    )


@given(charges(), st.sampled_from(["price_su", "state_of_practice_su"]))
def test_the_evidence_of_a_charge_reproduces_its_prices_and_none_that_is_a_quantum_off(
    made: ChargeMade, field: str
) -> None:
    on_the_wire = ChargeMade.FromString(made.SerializeToString())
    assert recompute(on_the_wire).price_su == Decimal(made.price_su)
    audit(on_the_wire)
    setattr(made, field, str(Decimal(getattr(made, field)) + Decimal("0.000001")))
    with pytest.raises(RejectedError, match=field):
        audit(made)


@pytest.mark.parametrize(
    ("field", "made"),
    [
        ("rate_su_per_core_s", ChargeMade(rate_su_per_core_s="a lot")),
        ("rate_su_per_core_s", ChargeMade(rate_su_per_core_s="NaN")),
        ("rate_su_per_core_s", ChargeMade(rate_su_per_core_s="1e999999")),
        ("rate_su_per_core_s", ChargeMade(rate_su_per_core_s="-1")),
        ("runtime_s", ChargeMade(runtime_s=float("inf"))),
        ("evidence", ChargeMade(evidence=[InterferenceEvidence(slowdown_ratio=0.5)])),
        (
            "evidence",
            ChargeMade(
                runtime_s=1, evidence=[InterferenceEvidence(slowdown_ratio=2, duration_s=2)]
            ),
        ),
        (
            "evidence",
            ChargeMade(evidence=[InterferenceEvidence(slowdown_ratio=2, duration_s=float("nan"))]),
        ),
    ],
)
def test_a_charge_that_cannot_be_computed_names_the_field(field: str, made: ChargeMade) -> None:
    with pytest.raises(RejectedError) as error:
        audit(made)
    assert error.value.field == field


@given(st.floats(), st.integers(0, 2**32 - 1), st.floats(), st.floats())
def test_an_audit_of_anything_ends_in_a_verdict(
    runtime_s: float, cores: int, duration_s: float, ratio: float
) -> None:
    made = ChargeMade(
        runtime_s=runtime_s,
        cores=cores,
        rate_su_per_core_s="0.1",
        price_su="12.345678",
        state_of_practice_su="1",
        evidence=[InterferenceEvidence(duration_s=duration_s, slowdown_ratio=ratio)],
    )
    with pytest.raises(RejectedError):
        audit(made)
