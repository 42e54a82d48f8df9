"""Debian's Slurm with slurmdbd and MariaDB: what ran is charged as its accounts have it, to the
second, after every message was lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from deploy.local.servers import LocalServers
from tests.support.accounts_region import AccountsRegion, of_core_time
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_kinds import EveryKind

_ORDINARY = 20


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountingSlurm]:
    with AccountingSlurm(tmp_path_factory.mktemp("accounts")) as found:
        yield found


def test_what_accounts_have_is_charged_to_the_second_and_once(
    servers: LocalServers, slurm: AccountingSlurm
) -> None:
    jobs = EveryKind(slurm, Random(1))
    jobs.run(_ORDINARY)
    assert jobs.submitted >= 50
    with ExitStack() as stack:
        region = AccountsRegion(servers, slurm)
        programs = region.programs()
        servers.start(programs)
        stack.callback(servers.remove, programs)
        code, lost = region.reconcile()
        assert code == 1
        assert len(of_core_time(lost, "not charged")) == len(lost) > jobs.submitted / 2
        published, refused = region.catch_up()
        assert (refused, published >= 2 * len(lost)) == (0, True)
        region.until_reconciled()
        in_accounts, charged = region.core_s()
        assert in_accounts == charged > 0
        assert region.catch_up() == (0, 0)
