"""A session: a folder with a copy of the library that is not compiled, what its tests call, and the
mutants that were drawn with what became of them. It goes on where it was left."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, WorkItem

from tests.mutation.calls import Tried, concerned, tried
from tests.mutation.population import Mutant, compiles, in_order, mutants, mutated, turn
from tests.mutation.results import Result, change, verdict
from tests.mutation.suite import ROOT, UNIT

# Of CPU time there is a limit anyway: this is for a test that waits for ever, and an hour's pause
# is none.
_WALL_S: Final = 3600.0
_SUITE: Final = (sys.executable, "-m", "tests.mutation.suite")
_LEFT_OUT: Final = shutil.ignore_patterns("*.so", "__pycache__")


class StaleSessionError(Exception):
    """What the session was made of is no longer what is here."""


class Session:
    """Is made where it is not there."""

    def __init__(self, folder: Path, seed: int, number: int, seconds: int) -> None:
        self._folder = folder.resolve()
        self._seconds = seconds
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check({"seed": seed, "mutants": number, "digest": digest(ROOT)})
        shutil.copytree(
            ROOT / "shared", self._folder / "shared", ignore=_LEFT_OUT, dirs_exist_ok=True
        )
        self._tests = self._called()
        self._db = WorkDB(self._folder / "session.sqlite", WorkDB.Mode.create)
        if not self._db.num_work_items:
            self._db.add_work_items([_item(each) for each in self._drawn(seed, number)])
        items = {item.job_id: item for item in self._db.work_items}
        self._items = dict(sorted(items.items(), key=lambda one: turn(one[0], seed)))

    def _check(self, made_of: dict[str, Any]) -> None:
        """Raises StaleSessionError where it was made of something else."""
        path = self._folder / "session.json"
        if path.exists() and json.loads(path.read_text(encoding="utf-8")) != made_of:
            raise StaleSessionError(
                f"{self._folder} is of other sources, tests or numbers: take another folder"
            )
        path.write_text(json.dumps(made_of), encoding="utf-8")

    def _called(self) -> list[Tried]:
        """What tests call: looked at once."""
        path = self._folder / "tests.json"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            self._record(unfinished)
            unfinished.rename(path)
        return [tried(each) for each in json.loads(path.read_text(encoding="utf-8"))]

    def _record(self, path: Path) -> None:
        """All have to pass on what is right. That writes bytecode, which all later runs read."""
        environment = {**os.environ, **self._environment(), "PYTHONDONTWRITEBYTECODE": ""}
        command = [*_SUITE, "--record", str(path)]
        subprocess.run(command, cwd=self._folder, env=environment, check=True, stdout=sys.stderr)

    def _environment(self) -> dict[str, str]:
        path = [str(self._folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        return {**one_thread, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "0"}

    def _drawn(self, seed: int, number: int) -> list[Mutant]:
        drawn = in_order(mutants(ROOT), seed)
        return list(islice((each for each in drawn if compiles(mutated(ROOT, each))), number))

    def take_over(self, known: Path) -> int:
        """What an earlier session killed stays killed where the file is the same; says how many."""
        earlier = WorkDB(known / "session.sqlite", WorkDB.Mode.open)
        pending = {item.job_id for item in self._db.pending_work_items}
        killed = 0
        for item, result in earlier.completed_work_items:
            if item.job_id in pending and _result(item, result).is_killed:
                file = item.mutations[0].module_path
                if (known / file).read_bytes() == (ROOT / file).read_bytes():
                    self._db.set_result(item.job_id, result)
                    killed += 1
        earlier.close()
        return killed

    def __len__(self) -> int:
        return len(self._items)

    def results(self) -> list[Result]:
        """Of all that were tried so far."""
        return [_result(*each) for each in self._db.completed_work_items]

    def go_on(self) -> Iterator[Result]:
        """Try those that were not tried yet, in the order in which they were drawn."""
        pending = {item.job_id for item in self._db.pending_work_items}
        os.environ.update(self._environment())
        with chdir(self._folder):
            for job_id, item in self._items.items():
                if job_id in pending:
                    yield self._try(item)

    def _try(self, item: Any) -> Result:
        mutation = item.mutations[0]
        source = (ROOT / mutation.module_path).read_text(encoding="utf-8")
        line = mutation.start_pos[0]
        chosen = concerned(self._tests, mutation.module_path.as_posix(), source, line)
        Path("chosen.json").write_text(json.dumps(chosen), encoding="utf-8")
        command = [*_SUITE, "--chosen", "chosen.json", "--seconds", str(self._seconds)]
        result = mutate_and_test(item.mutations, shlex.join(command), _WALL_S)
        # As old as it was, so that its bytecode is read again.
        shutil.copy2(ROOT / mutation.module_path, mutation.module_path)
        self._db.set_result(item.job_id, result)
        return _result(item, result)


def digest(root: Path) -> str:
    """Of the library and of the tests that are to kill."""
    found = sha256()
    for folder in ("shared", "lab", "tests/core", *UNIT):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()


def _item(mutant: Mutant) -> Any:
    spec = MutationSpec(
        module_path=mutant.file,
        operator_name=mutant.operator,
        occurrence=mutant.occurrence,
        start_pos=mutant.starts,
        end_pos=mutant.ends,
    )
    return WorkItem.single(mutant.name, spec)


def _result(item: Any, result: Any) -> Result:
    mutation = item.mutations[0]
    outcome = result.test_outcome.value if result.test_outcome else ""
    return Result(
        mutation.module_path.as_posix(),
        mutation.start_pos[0],
        verdict(outcome, result.output or ""),
        change(result.diff or ""),
        mutation.operator_name.removeprefix("core/"),
    )
