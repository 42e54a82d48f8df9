"""Whatever comes twice, in another order, or across restarts: the same statements."""

from hypothesis import given
from hypothesis import strategies as st

from services.pricing.accounts.statement import ChargeEntry, postings, statement_of, trial_balance
from tests.unit.cli.test_billing import T0_US, charge

_CHARGES = st.builds(
    lambda job, revision, micro_su, late: ChargeEntry.from_charge(
        charge(
            revision,
            f"{micro_su // 10**6}.{micro_su % 10**6:06d}",
            account=f"account-{job % 2}",
            booked_at_us=T0_US + late,
        )
    )._replace(job_id=f"job-{job}"),
    job=st.integers(0, 3),
    revision=st.integers(1, 3),
    micro_su=st.integers(0, 10**12),
    late=st.integers(0, 5),
)


@given(st.lists(_CHARGES, unique_by=lambda entry: entry[:3], max_size=12), st.randoms())
def test_copies_and_order_change_no_posting_and_both_sides_balance(entries, random) -> None:  # type: ignore[no-untyped-def]
    posted = postings(entries)
    again = [*entries, *random.sample(entries, len(entries) // 2)]
    random.shuffle(again)
    assert postings(again) == posted
    balances = trial_balance(posted)
    assert sum(balances.values()) == 0
    last = {entry[:2]: entry for entry in sorted(entries)}
    for account in ("account-0", "account-1"):
        owed = sum(entry.price_su for entry in last.values() if entry.account == account)
        assert balances.get(f"account {account}", 0) == owed
        for at_us in range(T0_US, T0_US + 7):
            first = statement_of(account, posted, 0, at_us)
            then = statement_of(account, posted, at_us, T0_US + 7)
            assert first.closing_su == then.opening_su
            assert then.closing_su == owed
