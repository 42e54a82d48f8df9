"""Planted bugs of the core: each replaces a few right words of its source by a realistic mistake,
which random systems must find. To add one, list what is to be replaced by what.

The core is compiled, so that nothing can be patched in it: a mutant is a copy of `shared`, not
compiled, in a process of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A mistake in one file; `soonest` is a seed that finds it, where that is not the first."""

    name: str
    path: str
    right: str
    wrong: str
    soonest: int = 0


MUTANTS: Final = (
    # The three defects that the core was rebuilt for.
    Mutant(
        "an explanation knows no refusal for watts, and raises",
        "placement/explain/refusals.py",
        "return WhyNot(constraints or [NOTHING], shortages)",
        "if shortages and len(constraints) == 1:\n"
        '            raise ValueError("was free to start")\n'
        "        return WhyNot(constraints or [NOTHING], shortages)",
    ),
    Mutant(
        "a guest that ends takes along what its host holds",
        "scheduling/consumable.py",
        "        allocated = self.allocated.pop(holder)\n        self.capacity.give",
        "        allocated = self.allocated.pop(holder)\n"
        "        on = allocated.allocation\n"
        "        beside = [h for h, other in self.allocated.items() if other.allocation == on]\n"
        "        for other in beside:\n"
        "            del self.allocated[other]\n"
        "        self.capacity.give",
        soonest=23,
    ),
    Mutant(
        "a join asks for watts that nobody draws, reserved or not",
        "scheduling/consumable.py",
        "is_affordable = self._is_affordable(entry)  # sooner",
        "is_affordable = self._is_affordable(entry) or (not self.kinds[entry.kind].shape.exclusive "
        "and entry.draw_mw <= self.budgets.undrawn_mw)  # sooner",
        soonest=37,
    ),
    # Our own.
    Mutant(
        "extra nodes are not used up",
        "scheduling/easy.py",
        "            self.extra -= nodes\n",
        "            pass\n",
        soonest=114,
    ),
    Mutant(
        "a lower step ahead is not looked at",
        "scheduling/power.py",
        "ahead = [from_s for from_s, _ in self.cap.steps if from_s > now_s]",
        "ahead: list[float] = []",
    ),
    Mutant(
        "entries behind a reservation that ended get no turn",
        "scheduling/backfill_scheduler.py",
        "        self._turns = self._acting(order)\n        self.turn()\n",
        "        self.turn()\n",
        soonest=7,
    ),
    Mutant(
        "a restart forgets what jobs draw",
        "placement/state/job_record.py",
        "restored.run.allocation = replace(on, nodes=tuple(nodes_of(on.nodes)))\n",
        "restored.run.allocation = replace(on, nodes=tuple(nodes_of(on.nodes)), draw_mw=0)\n",
        soonest=27,
    ),
    Mutant(
        "nobody wakes placement when a cap rises",
        "placement/budgets/layer.py",
        "        yield self.caps.next_step_s(self._now_s)\n",
        "",
        soonest=200,
    ),
    Mutant(
        "a start beside others may crowd out what is reserved there",
        "scheduling/node_selection.py",
        "        after = states.units_in(reserved.anywhere, then)\n",
        "        shape = reserved.anywhere.kind.shape\n"
        "        after = states.units_beside_anyone(shape, states.by_number[then])\n",
        soonest=17,
    ),
    Mutant(
        "limits leave no time for neighbours",
        "placement/evaluate/evaluation.py",
        "allowance = np.array([max_slowdown if job.shareable else 1.0 for job in jobs])",
        "allowance = np.array([1.0 for job in jobs])",
        soonest=1,
    ),
    # Actions on what runs.
    Mutant(
        "watts are given back before an action is answered",
        "placement/state/job_record.py",
        "return max([now_mw, *map(self.drawn_after_mw, self.actions)])",
        "return self.drawn_after_mw(self.actions[-1]) if self.actions else now_mw",
    ),
    Mutant(
        "a P-state is raised by watts that are reserved",
        "placement/measures/layer.py",
        "and budgets.has(more_mw, placed.ends_s, -1)\n",
        "and more_mw <= budgets.undrawn_mw\n",
        soonest=50,
    ),
    Mutant(
        "who need not be stopped any more is",
        "placement/measures/layer.py",
        "left_mw = _spare(chosen, slowed, running, -over_mw)\n",
        "left_mw = -over_mw\n",
        soonest=114,
    ),
    Mutant(
        "a suspended job runs on in spite of a lower step ahead",
        "placement/measures/layer.py",
        "under.has(draw_mw, self._now_s + left_s, job.arrival)",
        "under.has(draw_mw, self._now_s, job.arrival)",
        soonest=32,
    ),
    Mutant(
        "nothing is reserved for who is suspended",
        "placement/measures/layer.py",
        "                self._reserved.of_suspended.append(kept)\n",
        "                pass\n",
        soonest=114,
    ),
    Mutant(
        "the time in which a job was suspended counts for its limit",
        "placement/state/job_allocation.py",
        "            self.prolong(max(now_s - self.suspended_s, 0.0))\n",
        "",
        soonest=25,
    ),
    Mutant(
        "who is suspended is overdue in the end",
        "placement/measures/layer.py",
        "            self._job_table.allocations.expect(job, self._now_s + placed.left_s)\n",
        "            pass\n",
        soonest=6,
    ),
    Mutant(
        "who is suspended for ever is expected to run on",
        "placement/measures/layer.py",
        "if start_s < inf or not job.run.drawn_mw:",
        "if start_s < inf:",
        soonest=32,
    ),
    Mutant(
        "nothing is kept for whom room is made",
        "placement/measures/sharing.py",
        "        self._reserved.of_sharing = [self._kept(each) for each in awaited]\n",
        "        self._reserved.of_sharing = []\n",
        soonest=114,
    ),
    Mutant(
        "room is made of more than the start gains",
        "placement/measures/lowering.py",
        "fewest_losses(steps, missing_mw, worth(limit_s, limit_s))",
        "fewest_losses(steps, missing_mw, inf)",
        soonest=435,
    ),
    Mutant(
        "a restart forgets what was asked of running jobs",
        "placement/state/job_record.py",
        "    return restored\n\n\n# Nor when",
        "    restored.run.actions = ()\n    return restored\n\n\n# Nor when",
        soonest=77,
    ),
    Mutant(
        "who reserved the watts is passed over with its block",
        "scheduling/powered_entries.py",
        "return self.has_for_any(block, least) or bool(self.reserved_entries(block, order, least))",
        "return self.has_for_any(block, least)",
        soonest=488,
    ),
    Mutant(
        "caps count in the order in which they were declared",
        "placement/state/model_store.py",
        "                self._caps = power_caps.in_order(self._caps)\n",
        "",
        soonest=1087,
    ),
    # Where jobs may run.
    Mutant(
        "a job starts on nodes where it may not be",
        "scheduling/node_selection.py",
        "if (within := [each for each in options if each.node_class.bits & nodes])\n",
        "if (within := options)\n",
        soonest=3,
    ),
    Mutant(
        "a reservation counts nodes where its job may not be",
        "scheduling/consumable.py",
        "self._nodes.ways(soonest.kind)[soonest.way], extra)",
        "self._nodes._states.ways(self._nodes.ways(soonest.kind)[soonest.way].held)[0], extra)",
        soonest=5,
    ),
    Mutant(
        "a job is reserved for in the first of its partitions, whichever is free first",
        "scheduling/consumable.py",
        "if best is None or soonest.start_s < best.start_s:",
        "if best is None:",
        soonest=28,
    ),
    Mutant(
        "a node that a job wants need not be free",
        "scheduling/node_classes.py",
        "        return 0 if lacking else total\n",
        "        return total\n",
        soonest=41,
    ),
    Mutant(
        "a start takes the node that the reserved job wants",
        "scheduling/node_selection.py",
        "            return UNKNOWN  # the reserved job needs this very node\n",
        "            pass\n",
        soonest=290,
    ),
    Mutant(
        "a job has neighbours in an exclusive partition",
        "scheduling/problem.py",
        "exclusive = shape.exclusive or where.exclusive",
        "exclusive = shape.exclusive",
        soonest=150,
    ),
    Mutant(
        "excluded nodes are taken",
        "scheduling/eligibility.py",
        "        allowed &= ~excluded\n",
        "",
        soonest=5,
    ),
    Mutant(
        "the limits of a partition hold for nobody",
        "scheduling/eligibility.py",
        "return fits and in_time and (is_open or partition.admits(job.account, job.user))",
        "return is_open or partition.admits(job.account, job.user)",
        soonest=5,
    ),
    Mutant(
        "nodes that a job names are like the others of their class",
        "scheduling/node_states.py",
        "        unseen = [each for each in named if each not in self._sets]\n",
        "        unseen = [each for each in named if each not in self._sets][:1]\n",
        soonest=3,
    ),
    # Reservations and maintenance.
    Mutant(
        "a job may run into what begins before its limit ends",
        "scheduling/windows.py",
        "            if each.from_s >= end_s:\n",
        "            if each.from_s > start_s:\n",
    ),
    Mutant(
        "a job that ends as a maintenance begins is kept waiting",
        "scheduling/windows.py",
        "            if each.from_s >= end_s:\n",
        "            if each.from_s > end_s:\n",
        soonest=18,
    ),
    Mutant(
        "nodes are kept a moment longer than they are reserved",
        "scheduling/windows.py",
        "            if start_s < each.until_s and each.name != reservation:\n",
        "            if start_s <= each.until_s and each.name != reservation:\n",
    ),
    Mutant(
        "the jobs of a reservation are kept off its nodes",
        "scheduling/windows.py",
        "            if start_s < each.until_s and each.name != reservation:\n",
        "            if start_s < each.until_s:\n",
    ),
    Mutant(
        "a job of a reservation runs into a maintenance of its nodes",
        "scheduling/windows.py",
        "            if start_s < each.until_s and each.name != reservation:\n",
        "            if start_s < each.until_s and not reservation:\n",
    ),
    Mutant(
        "a job of a reservation starts before it begins",
        "scheduling/windows.py",
        "        return start_s >= from_s\n",
        "        return True\n",
    ),
    Mutant(
        "a job starts at a lower clock, and outlasts its reservation",
        "scheduling/consumable.py",
        "if not self._has_windows or entry.nodes <= self.units_now(other):",
        "if entry.nodes <= self.units_now(entry):",
        soonest=145,
    ),
    Mutant(
        "the first of the queue is promised nodes that are kept for others then",
        "scheduling/consumable.py",
        "            if then == shut or soonest.start_s == inf:\n",
        "            if soonest.start_s < inf or soonest.start_s == inf:\n",
        soonest=188,
    ),
    Mutant(
        "the first of the queue is promised nothing sooner when a maintenance ends",
        "scheduling/consumable.py",
        "            if opens_s <= soonest.start_s or not soonest.fits:\n",
        "            if not soonest.fits:\n",
        soonest=6,
    ),
    Mutant(
        "what is promised is counted on nodes that are kept for others",
        "scheduling/consumable.py",
        "self._nodes.ways(soonest.kind)[soonest.way]",
        "self._nodes.ways(self._blocked.kind if self._blocked else 0)[soonest.way]",
        soonest=166,
    ),
    Mutant(
        "a job that awaits its reservation has others wait behind it",
        "scheduling/consumable.py",
        "        if self._has_windows and self.awaited_window(entry) is not None:\n",
        "        if self._has_windows and entry.nodes < 0:\n",
    ),
    Mutant(
        "a forecast does not see that a maintenance is over",
        "scheduling/consumable.py",
        "            if self.windows.turns_within(self._now_s, now_s):\n",
        "            if self.windows.turns_within(now_s, now_s):\n",
    ),
    Mutant(
        "nobody looks again when a reservation begins or ends",
        "placement/state/layer.py",
        "        yield from self.reservations.due_s()\n",
        "",
        soonest=22,
    ),
    Mutant(
        "a reservation is for everybody",
        "placement/state/reservations.py",
        "        return job.user in self.users or job.account in self.accounts\n",
        "        return True\n",
    ),
    Mutant(
        "the limit of a job may end after its reservation",
        "placement/decide/pending_reasons.py",
        "start_s, start_s + candidate.walltime_s):\n",
        "start_s, start_s):\n",
    ),
    Mutant(
        "a reservation of nodes counts for their cluster",
        "placement/state/reservations.py",
        "        if reservation.nodes:\n            nodes, _ =",
        "        if not reservation.nodes:\n            nodes, _ =",
    ),
    Mutant(
        "a removed reservation keeps its nodes",
        "placement/state/reservations.py",
        "            named.pop(row.name, None)\n",
        "            named.get(row.name, None)\n",
    ),
    Mutant(
        "whoever was restored keeps no nodes for others",
        "placement/state/reservations.py",
        "            self._saved_now.add(key)\n            self._note(row)\n",
        "            self._saved_now.add(key)\n",
    ),
    Mutant(
        "a part of a gang that could have other nodes keeps those that another needs",
        "scheduling/part_matching.py",
        "            if count:\n",
        "            if count < 0:\n",
        soonest=51,
    ),
    Mutant(
        "a node that a part of a gang wants need not be free",
        "scheduling/part_matching.py",
        "            pinned += left if masks[at] else 0\n",
        "            pinned += left\n",
        soonest=528,
    ),
    Mutant(
        "what is reserved for a gang is counted as nodes of any kind",
        "scheduling/node_selection.py",
        "        if place.parts or shadow.place.parts:\n",
        "        if place.parts:\n",
        soonest=20,
    ),
    Mutant(
        "what fits is not brought up to date when a job starts",
        "scheduling/node_classes.py",
        "            fits = self._states.units_in(units, each.now)\n",
        "            fits = had\n",
    ),
    Mutant(
        "a gang starts beside a reserved one on nodes that this needs",
        "scheduling/gangs.py",
        "(then[at].parts << len(parts) if reserved else 0)",
        "(now[at].parts << len(parts) if reserved else 0)",
        soonest=30,
    ),
    Mutant(
        "parts of a gang run into what is kept for others",
        "scheduling/problem.py",
        "        left = tuple([without(each, shut) for each in places])\n",
        "        left = tuple(places)\n",
        soonest=36,
    ),
    Mutant(
        "nodes are not distinguished by where parts of a gang may be",
        "scheduling/node_states.py",
        "        sets += _sets_of(part.shape)\n",
        "        sets += []\n",
        soonest=51,
    ),
    Mutant(
        "several units of a part on a node need the memory of one",
        "domain/parts.py",
        "return self.most_on_a_node * self.memory_gib_per_unit",
        "return self.memory_gib_per_unit",
        soonest=29,
    ),
    Mutant(
        "a job takes of a reserved gang as many nodes as there are",
        "scheduling/gangs.py",
        "        least = 0 if group.parts else most\n",
        "        least = most\n",
        soonest=29,
    ),
    # Licences.
    Mutant(
        "the first that waits reserves no licences",
        "scheduling/consumable.py",
        "self.has_moved |= self.licences.reserve(entry.arrival, start_s, limit_s, needs)\n",
        "assert needs is not None\n",
        soonest=7,
    ),
    Mutant(
        "licences that are reserved are only looked at now",
        "scheduling/consumable.py",
        "is_licensed = self.licences.has(needs, self.end_s(entry), entry.arrival)",
        "is_licensed = self.licences.has(needs, self._now_s, entry.arrival)",
        soonest=14,
    ),
    Mutant(
        "what starts takes its licences in the pass that follows",
        "scheduling/consumable.py",
        "            self.licences.hold(entry.arrival, end_s, self.licences_of(entry))\n",
        "            assert end_s\n",
        soonest=6,
    ),
    Mutant(
        "a forecast gives no licences back",
        "scheduling/consumable.py",
        "        self.licences.release(holder)\n        self._nodes.count_anew()\n",
        "        self._nodes.count_anew()\n",
        soonest=20,
    ),
    Mutant(
        "nodes are reserved before the licences are there",
        "scheduling/consumable.py",
        "        return self.licences.earliest(needs, entry.limit_s, start_s, entry.arrival)\n",
        "        return start_s if needs is not None else from_s\n",
        soonest=7,
    ),
    Mutant(
        "of a name in several places the innermost alone counts",
        "placement/budgets/licence_budgets.py",
        "                by_cluster[cluster].setdefault(pool.name, []).append(budget)\n",
        "                by_cluster[cluster].setdefault(pool.name, [budget])\n",
        soonest=6,
    ),
    Mutant(
        "what runs without neighbours holds no licences",
        "scheduling/problem.py",
        "return [Way(kind._replace(licences=()) if licences else kind, kind, -1, 0)]",
        "return [Way(*[kind._replace(licences=())] * 2, -1, 0)]",
        soonest=6,
    ),
    Mutant(
        "licences of any place are those of the first cluster",
        "placement/state/licences.py",
        "        return Covered(self.scope, self.place)\n",
        '        return Covered(self.scope, self.place and "a")\n',
        soonest=6,
    ),
    Mutant(
        "a restart knows no licences",
        "placement/state/licences.py",
        "for key, _ in self._rows.items()}\n        self._refresh()\n",
        "for key, _ in self._rows.items()}\n        self._known, self._on = {}, {}\n",
        soonest=14,
    ),
    Mutant(
        "all that a job needs may be all but one of what there is",
        "placement/state/licences.py",
        "            if count > there.get(name, -1):\n",
        "            if count > there.get(name, -1) + 1:\n",
        soonest=7,
    ),
    # Parts of cores, which are drawn from seed 2000 on.
    Mutant(
        "parts of cores are packed as whole ones",
        "scheduling/problem.py",
        "        return job.unit_millicores\n",
        "        return millicores(job.cores_per_unit)\n",
        soonest=2000,
    ),
    Mutant(
        "a neighbour draws bandwidth by whole cores",
        "scheduling/sharing.py",
        "cores, of_node = millicores / PER_CORE, self",
        "cores, of_node = -(-millicores // PER_CORE), self",
        soonest=2000,
    ),
)


def mistaken(mutant: Mutant) -> str:
    """The source with the mistake in it. Raises ValueError where the right words are not there
    once: the source has moved on."""
    text = (ROOT / "shared" / mutant.path).read_text(encoding="utf-8")
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.path} has {mutant.right!r} {text.count(mutant.right)} times")
    return text.replace(mutant.right, mutant.wrong)


def planted(mutant: Mutant, folder: Path) -> Path:
    """A copy of the library with the mistake in it."""
    copy = folder / "shared"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "shared", copy, ignore=ignored)
    (copy / mutant.path).write_text(mistaken(mutant), encoding="utf-8")
    return copy


def found(mutant: Mutant, folder: Path, minutes: float = 1.0) -> bool:
    """Whether random systems find the mistake within so much CPU time."""
    planted(mutant, folder)
    search = [sys.executable, "-m", "tests.core", "--seed", str(mutant.soonest), "--no-shrink"]
    path = os.pathsep.join([str(folder), str(ROOT)])
    ran = subprocess.run(
        [*search, "--minutes", str(minutes)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    print(ran.stdout, ran.stderr)
    if ran.returncode not in (0, 1) or (ran.returncode and not ran.stdout.startswith("seed")):
        raise RuntimeError(ran.stderr)
    return ran.returncode == 1
