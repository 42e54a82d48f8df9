"""Debian's Slurm with slurmdbd and MariaDB: what ran is charged as its accounts have it, to the
second, after every message was lost."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from services.slurm.adapters.accounts import ended_runs
from services.slurm.adapters.commands import Slurm
from services.slurm.adapters.kept_runs import EndedRuns
from services.slurm.model.facts import SlurmTerms, facts_of
from shared.slurm.facts import STARTED_IN_PARTS, Site, envelopes, identify
from tests.support.accounts_region import AccountsRegion, of_core_time
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_kinds import EveryKind
from tests.unit.services.slurm.region import PlayedRegion as KeptRegion

_ORDINARY: Final = 20


_SITE: Final = Site("north", "none", "", "alpha")
_TERMS: Final = SlurmTerms(_SITE, "alpha")
_WAYS: Final = ("sacct", "squeue", "jobcomp.lua")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountingSlurm]:
    folder = tmp_path_factory.mktemp("accounts")
    with AccountingSlurm(folder, more="JobCompType=jobcomp/lua\n") as found:
        yield found


def test_what_accounts_have_is_charged_to_the_second_and_once(
    servers: LocalServers, slurm: AccountingSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = EveryKind(slurm, Random(1))
    jobs.run(_ORDINARY)
    assert jobs.submitted >= 50
    assert contents_that_differ(monkeypatch, slurm) == []
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


def contents_that_differ(monkeypatch: pytest.MonkeyPatch, slurm: AccountingSlurm) -> list[set[str]]:
    """The contents of each id of which squeue, sacct and jobcomp.lua do not give the same. No run
    that kept its nodes is missing in the files."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    now_s = int(time.time())
    runs = [run for part in ended_runs(now_s - 3_600, now_s + 1) for run in part]
    kept = KeptRegion()
    EndedRuns(slurm.ended, kept, lambda: _SITE).publish()
    by_sacct = [fact for run in runs for fact in envelopes(run.message(), _SITE)]
    by_squeue = [fact for job in Slurm().jobs() for fact in facts_of(job, _TERMS).told]
    contents = defaultdict[str, list[str]](list)
    for fact in (*by_sacct, *by_squeue, *kept.told):
        contents[fact.id].append(str(fact))
    assert len([name for name, found in contents.items() if len(found) == len(_WAYS)]) > 50
    ends = [fact.job_finished for fact in kept.told if fact.HasField("job_finished")]
    # The end of a heterogeneous job is no run: those of its parts are.
    ended = {each.job_id for each in ends if each.ended_as != STARTED_IN_PARTS}
    resized = {run.fields["job_id"] for run in runs if "RESIZING" in str(run.fields["state"])}
    whole = [run for run in runs if run.fields["job_id"] not in resized]
    assert ended == {identify(run.message(), _SITE) for run in whole}
    return [set(found) for found in contents.values() if len(set(found)) > 1]
