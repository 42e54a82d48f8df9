"""`make slurm-accounts`: jobs of every kind on a real Slurm 24.11 with the plugin jobcomp/kafka,
slurmdbd and MariaDB, and charges beside its accounts.

One half of the jobs runs while `ingest-jobcomp` reads what the plugin sends, the other half while
it is stopped. Then what is missing is read from the accounts, and `ingest-jobcomp` runs again.
Charges differ from the accounts in nothing, and one event id has one content, whichever way
reported it.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from cli.kafka_topics import KafkaTopics
from deploy.local.servers import LocalServers
from tests.support.accounts_region import NAMESPACE, AccountsRegion
from tests.support.slurm import built_slurm
from tests.support.slurm_accounting import AccountingSlurm
from tests.support.slurm_kinds import EveryKind

_CONF: Final = """\
JobCompType=jobcomp/kafka
JobCompLoc={folder}/kafka.conf
JobCompParams=topic={topic}
AccountingStoreFlags=job_comment
MinJobAge=86400
"""
# The plugin sends in the background.
_SENT_WITHIN_S: Final = 10.0


def contents(region: AccountsRegion) -> Counter[int]:
    """How many ids of facts about jobs have how many contents."""
    found: defaultdict[str, set[bytes]] = defaultdict(set)
    for event in KafkaTopics(region.deployment).topic("jobs.events"):
        found[event.id].add(event.payload.SerializeToString(deterministic=True))
    return Counter(len(each) for each in found.values())


def run(ordinary: int, seed: int, root: Path, stack: ExitStack) -> int:
    """Return 0 where charges and accounts agree."""
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=root / "tmp")))
    run_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="accounts-")))
    servers = stack.enter_context(LocalServers(run_dir))
    (home / "kafka.conf").write_text(f"bootstrap.servers={servers.kafka_bootstrap}\n")
    inside = Path("/", home.relative_to(root))
    more = _CONF.format(folder=inside, topic=f"{NAMESPACE}.slurm.jobcomp")
    slurm = stack.enter_context(AccountingSlurm(home, root, more))
    region = AccountsRegion(servers, slurm)
    reader = region.jobcomp()
    servers.start(region.programs())
    region.declare()
    servers.start([reader])
    jobs = EveryKind(slurm, Random(seed))
    jobs.run(ordinary)
    time.sleep(_SENT_WITHIN_S)
    _, after_messages = region.reconcile()
    servers.remove([reader])
    jobs.run(ordinary)
    time.sleep(_SENT_WITHIN_S)
    _, lost = region.reconcile()
    published, refused = region.catch_up()
    region.until_reconciled()
    servers.start([reader])  # what it reads now is published already, and charged
    time.sleep(_SENT_WITHIN_S)
    code, left = region.reconcile()
    in_accounts, charged = region.core_s()
    different = contents(region)
    print(f"{jobs.submitted} jobs; differences: {len(after_messages)} by messages alone:")
    print("", *after_messages, sep="\n  ")
    print(
        f"{len(lost)} after messages were lost; caught up by {published} facts, {refused} refused"
    )
    print(f"{len(left)} left; {in_accounts} core s in the accounts, {charged:g} charged")
    print(f"contents of an id: {dict(different)}")
    return 0 if code == 0 and in_accounts == charged and set(different) == {1} else 1


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40, help="ordinary ones of each half")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        return run(arguments.jobs, arguments.seed, built_slurm("24.11"), stack)


if __name__ == "__main__":
    sys.exit(main())
