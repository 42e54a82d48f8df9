"""What Debian's Slurm (22.05) says of a job and a node, as far as it is read."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

SUBMIT_S: Final = 1_795_352_903
JOB: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "account": "",
        "admin_comment": "",
        "array_job_id": 0,
        "array_task_id": None,
        "array_task_string": "",
        "cluster": "alpha",
        "comment": "app_id=lu.C nice",
        "cpus": 1,
        "end_time": 0,
        "het_job_id": 0,
        "het_job_offset": 0,
        "job_id": 17,
        "job_state": "PENDING",
        "name": "my job",
        "node_count": 1,
        "nodes": "",
        "start_time": 0,
        "submit_time": SUBMIT_S,
        "time_limit": 5,
        "tres_alloc_str": "",
        "tres_req_str": "cpu=1,mem=1G,node=1,billing=1",
        "user_name": "ada",
    }
)
RUNS: Final = MappingProxyType(
    {
        "admin_comment": "coplace grant=2 started freq_ghz=2.1",
        "cpus": 2,
        "end_time": SUBMIT_S + 302,
        "job_state": "RUNNING",
        "nodes": "n2",
        "start_time": SUBMIT_S + 2,
        "tres_alloc_str": "cpu=2,node=1,billing=2",
    }
)
NODE: Final[Mapping[str, Any]] = MappingProxyType(
    {"cpus": 36, "name": "n1", "real_memory": 196_608, "tres": "cpu=36,mem=192G,billing=36"}
)
