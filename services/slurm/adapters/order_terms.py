"""Reads what Slurm takes the order of its jobs from, each piece only where it has a weight."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from services.slurm.adapters.commands import Slurm, SlurmError
from services.slurm.model.order_records import (
    associations_of,
    fair_shares_of,
    partitions_of,
    qos_of,
    size_of,
)
from services.slurm.model.priority import PriorityRules, QueueTerms
from services.slurm.model.select_rules import SelectRules

_SSHARE: Final = ("sshare", "--all", "--partition", "--format=Account,User,Partition,FairShare")
_ASSOCIATIONS: Final = ("sacctmgr", "show", "associations")
_QOS: Final = ("sacctmgr", "show", "qos", "format=Name,Priority")
_NO_ACCOUNTS: Final = "without slurmdbd there are none"
_NO_SITE_FACTOR: Final = frozenset({"", "(null)", "none", "site_factor/none"})


class OrderTerms:
    """The terms as they were read last; what cannot be read stays as it was, and is 0 before."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._known: dict[str, Any] = {}
        self.problems: Mapping[str, str] = {}
        """Why a kind of factor is not known or not new, by its name."""

    def read(self) -> QueueTerms:
        """Return them as Slurm has them now. Raises SlurmError where it does not answer at all."""
        slurm, config, problems = self._slurm, self._slurm.config(), dict[str, str]()
        rules = PriorityRules.of_config(config)
        if "NO_NORMAL_ALL" in rules.flags:
            rules = rules.with_flags_of(_text_of(config.get("SLURM_CONF", "")))
        has_accounts = "slurmdbd" in config.get("AccountingStorageType", "")
        of_cluster = f"cluster={config['ClusterName']}"

        def known(what: str, is_needed: float | bool, ask: Callable[[], Any]) -> Any:
            if is_needed and rules.is_multifactor:
                try:
                    self._known[what] = ask()
                except SlurmError as error:
                    problems[what] = str(error)
            return self._known.get(what)

        def of_accounts(what: str, weight: float, ask: Callable[[], Any]) -> Any:
            if weight and rules.is_multifactor and not has_accounts:
                problems[what] = _NO_ACCOUNTS
            return known(what, weight if has_accounts else 0, ask) or {}

        if config.get("PrioritySiteFactorPlugin", "") not in _NO_SITE_FACTOR:
            problems["site factor"] = "Slurm does not show it of a job that is held"
        size = known("job size", rules.job_size, lambda: size_of(slurm.shown("nodes")))
        nodes, cpus = size or (0, 0)
        found = QueueTerms(
            rules,
            partitions_of(slurm.shown("partition")),
            nodes,
            cpus,
            not SelectRules.of_config(config).shares_nodes,
            of_accounts(
                "fair share", rules.fair_share, lambda: fair_shares_of(slurm.table(*_SSHARE))
            ),
            of_accounts(
                "association",
                rules.association,
                lambda: associations_of(
                    slurm.table(
                        *(*_ASSOCIATIONS, of_cluster),
                        "format=Account,User,Partition,Priority,ParentName",
                    )
                ),
            ),
            of_accounts("QOS", rules.qos, lambda: qos_of(slurm.table(*_QOS))),
        )
        self.problems = problems
        return found


def _text_of(file: str) -> str:
    """Empty where it cannot be read."""
    try:
        return Path(file).read_text(errors="replace") if file else ""
    except OSError:
        return ""
