"""Debian's Slurm with slurmdbd and MariaDB: what ran is charged as its accounts have it, to the
second, after every message was lost."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from services.slurm.adapters.accounts import ended_runs
from services.slurm.adapters.commands import Slurm
from services.slurm.model.facts import SlurmTerms, facts_of
from shared.slurm.facts import Site, envelopes
from tests.support.accounts_region import AccountsRegion, of_core_time
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_kinds import EveryKind

_ORDINARY: Final = 20


_SITE: Final = Site("north", "none", "")
_TERMS: Final = SlurmTerms(_SITE, "alpha")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountingSlurm]:
    with AccountingSlurm(tmp_path_factory.mktemp("accounts")) as found:
        yield found


def test_what_accounts_have_is_charged_to_the_second_and_once(
    servers: LocalServers, slurm: AccountingSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = EveryKind(slurm, Random(1))
    jobs.run(_ORDINARY)
    assert jobs.submitted >= 50
    assert contents_of_two_ways(monkeypatch, slurm) == {1}
    with ExitStack() as stack:
        region = AccountsRegion(servers, slurm)
        programs = region.programs()
        servers.start(programs)
        stack.callback(servers.remove, programs)
        region.declare()
        code, lost = region.reconcile()
        assert code == 1
        assert len(of_core_time(lost, "not charged")) == len(lost) > jobs.submitted / 2
        published, refused = region.catch_up()
        assert (refused, published >= 2 * len(lost)) == (0, True)
        region.until_reconciled()
        in_accounts, charged = region.core_s()
        assert in_accounts == charged > 0
        assert region.catch_up() == (0, 0)
        assert region.charged_clusters() == {"gold", "rome"}


def contents_of_two_ways(monkeypatch: pytest.MonkeyPatch, slurm: AccountingSlurm) -> set[int]:
    """How many contents ids have that both squeue and sacct give."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    now_s = int(time.time())
    runs = [run for part in ended_runs(now_s - 3_600, now_s + 1) for run in part]
    by_sacct = {fact.id: fact for run in runs for fact in envelopes(run.message(), _SITE)}
    by_squeue = {fact.id: fact for job in Slurm().jobs() for fact in facts_of(job, _TERMS).told}
    both = by_sacct.keys() & by_squeue.keys()
    assert len(both) > 50
    return {len({str(by_sacct[name]), str(by_squeue[name])}) for name in both}
