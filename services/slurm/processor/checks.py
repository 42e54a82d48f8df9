"""What is missing of what a site sets up beside its Slurm: pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from services.slurm.model.clusters import (
    ClusterShare,
    UnlikeNodesError,
    declared_clusters,
    shared_out,
)
from services.slurm.model.limits import enforces_limits
from services.slurm.model.priority import PriorityRules
from services.slurm.model.select_rules import SelectRules

_DAY_S: Final = 86_400
_LEAST_AGE_S: Final = 3_600
# MaxJobCount where nobody says another one.
_DEFAULT_JOBS: Final = 10_000
_BF_INTERVAL: Final = re.compile(r"\bbf_interval=(\d{1,6})")
_MOST_INTERVAL_S: Final = 5
# Of MaxJobCount: beyond this it may be reached within a day.
_MOST_FULL: Final = 0.5
_HOW_TO: Final = "docs/how-to/slurm.md"
# It speaks every 30 s, and is asked again until it does.
_MOST_SILENT_S: Final = 90.0
TIMER: Final = "coplace-slurm-fallback.timer"


class SetupPiece(NamedTuple):
    """A piece of the configuration: what there is of it, and what to do where that is wrong."""

    what: str
    advice: str = ""

    @property
    def is_good(self) -> bool:
        """Return whether there is nothing to do."""
        return not self.advice

    def __str__(self) -> str:
        return f"ok       {self.what}" if self.is_good else f"MISSING  {self.what}: {self.advice}"


def of_config(config: Mapping[str, str], user: str) -> Iterator[SetupPiece]:
    """Yield the pieces of Slurm's configuration, for a process of this user of the system."""
    yield SetupPiece(f"Slurm {config.get('SLURM_VERSION', 'of an unknown release')}")
    plugins = config.get("JobSubmitPlugins", "(null)")
    has_lua = "lua" in plugins.split(",")
    yield SetupPiece(
        f"JobSubmitPlugins={plugins}",
        "" if has_lua else f"set JobSubmitPlugins=lua: without it Slurm starts jobs ({_HOW_TO})",
    )
    prolog = config.get("TaskProlog", "(null)")
    is_set = prolog not in ("", "(null)", "(none)")
    advice = f"set TaskProlog: steps do not run at the decided clock ({_HOW_TO})"
    yield SetupPiece(f"TaskProlog={prolog}", "" if is_set else advice)
    age = config.get("MinJobAge", "")
    age_s = int(age.split()[0]) if age.split()[:1] and age.split()[0].isdecimal() else 0
    completion = config.get("JobCompType", "")
    keeps_ends = completion == "jobcomp/lua" or age_s >= _LEAST_AGE_S
    advice = (
        f"set JobCompType=jobcomp/lua, or MinJobAge={_DAY_S}: ends are missed while the process is "
        f"stopped for longer ({_HOW_TO})"
    )
    yield SetupPiece(f"JobCompType={completion}, MinJobAge={age_s}", "" if keeps_ends else advice)
    yield from _of_job_count(config, age_s)
    parameters = config.get("SchedulerParameters", "")
    interval = _BF_INTERVAL.search(parameters)
    is_short = interval is not None and int(interval[1]) <= _MOST_INTERVAL_S
    advice = "add bf_interval=1: what is released may start up to 30 s later"
    yield SetupPiece(f"SchedulerParameters={parameters}", "" if is_short else advice)
    slurm_user = config.get("SlurmUser", "").partition("(")[0]
    may = user in ("root", slurm_user)
    advice = f"run the process as {slurm_user} or root: others may not change jobs"
    yield SetupPiece(f"it is asked by {user}", "" if may else advice)
    select = SelectRules.of_config(config)
    how = "single cores" if select.shares_nodes else "whole nodes"
    yield SetupPiece(f"SelectType={config.get('SelectType', '')}: jobs get {how}")


def of_order(config: Mapping[str, str], problems: Mapping[str, str]) -> Iterator[SetupPiece]:
    """Yield whether all is known that Slurm orders its jobs by, and why a kind of factor is not."""
    rules = PriorityRules.of_config(config)
    order = f"PriorityType={config.get('PriorityType', '')}"
    yield SetupPiece(order if rules.is_multifactor else f"{order}: jobs go by their numbers")
    for what, problem in problems.items():
        yield SetupPiece(f"{what} in Slurm's order", f"{problem}: it counts as 0 ({_HOW_TO})")


def of_limits(config: Mapping[str, str], limits: int) -> Iterator[SetupPiece]:
    """Yield how many limits of QOS and associations are declared to placement, where Slurm enforces
    them."""
    said = config.get("AccountingStorageEnforce", "")
    told = f"{limits} limits are declared" if enforces_limits(config) else "no limits"
    yield SetupPiece(f"AccountingStorageEnforce={said}: {told}")


def of_silence(silent_s: float | None, timer: str) -> Iterator[SetupPiece]:
    """Yield what starts jobs while Coplace is silent: for how long it is, None where it never
    spoke, and the state of the timer."""
    spoke = "never" if silent_s is None else f"{silent_s:.0f} s ago"
    speaks = silent_s is not None and silent_s <= _MOST_SILENT_S
    advice = "see what the process `slurm` logs: it notes when the region answers"
    yield SetupPiece(f"Coplace spoke {spoke}", "" if speaks else advice)
    advice = f"enable it: while Coplace is silent no job starts ({_HOW_TO})"
    yield SetupPiece(f"{TIMER} is {timer}", "" if timer == "active" else advice)


def _of_job_count(config: Mapping[str, str], age_s: int) -> Iterator[SetupPiece]:
    """Jobs that ended are kept for so long, and count."""
    said = config.get("MaxJobCount", "")
    is_few = said.isdecimal() and int(said) <= _DEFAULT_JOBS and age_s >= _LEAST_AGE_S
    advice = f"set MaxJobCount above {_DEFAULT_JOBS}: jobs that ended count for {age_s} s"
    yield SetupPiece(f"MaxJobCount={said}", advice if is_few else "")


def of_jobs(config: Mapping[str, str], jobs: int) -> Iterator[SetupPiece]:
    """Yield whether Slurm takes more jobs, of which it shows so many: those that ended count."""
    said = config.get("MaxJobCount", "")
    most = int(said) if said.isdecimal() else 0
    advice = (
        f"raise MaxJobCount above the jobs of a day and those that wait, or lower MinJobAge: Slurm "
        f"takes no job beyond it ({_HOW_TO})"
    )
    is_near = most and jobs > most * _MOST_FULL
    yield SetupPiece(f"squeue --json: {jobs} jobs of MaxJobCount={said}", advice if is_near else "")


def of_nodes(
    nodes: Sequence[Mapping[str, Any]], shares: Sequence[ClusterShare]
) -> Iterator[SetupPiece]:
    """Yield the clusters of the file, with the nodes that they have, and nodes of none."""
    placed = shared_out(nodes, shares)
    for share in shares:
        found = placed[share.cluster]
        try:
            [declared] = declared_clusters(found, "", "", [ClusterShare(*share[:2])])
        except UnlikeNodesError as error:
            yield SetupPiece(f"cluster {share.cluster}", str(error))
        else:
            cores = declared.cores_per_node
            yield SetupPiece(f"cluster {share.cluster}: {declared.nodes} nodes of {cores} cores")
    if left := len(nodes) - sum(map(len, placed.values())):
        yield SetupPiece(f"{left} nodes of no cluster", "name them in the file of clusters")
