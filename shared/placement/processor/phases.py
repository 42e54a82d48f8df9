"""The phases of a round, in their order: each says what it needs from those before it.

A phase reads the layers and what earlier phases noted of the round, changes state, and returns what
is to be published.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Publish
from shared.placement.decide.interactive_jobs import ExpectedStart
from shared.placement.decide.refusals import Refusals
from shared.placement.explain.decisions import Decisions, write_expected
from shared.placement.explain.pass_decisions import PassDecisions
from shared.placement.processor.layers import Layers
from shared.placement.state.job_record import JobRecord
from shared.streams.stages.stage import Round

_MOST_IDLE_PASSES: Final = 100


@dataclass(slots=True)
class RoundInHand:
    """A round that ends, and what its phases noted so far: the jobs whose entries in the queue may
    have changed, and what came of the last pass. Of a `decided` round nothing new may come: what
    was published of it is played."""

    ended: Round
    decisions: Decisions
    decided: bool
    touched: list[JobRecord] = field(default_factory=list)
    changed: list[JobRecord] = field(default_factory=list)
    last_pass: PassDecisions | None = None
    # When interactive jobs are expected to start, by id.
    expected: Mapping[str, ExpectedStart] = field(default_factory=dict)


class EndlessPassesError(RuntimeError):
    """Passes over the queue start nothing and ask for another: a defect, which ends no process."""


Phase = Callable[[Layers, RoundInHand], Iterable[Publish]]


def forget(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Drop what is too old. First, so that nothing that is forgotten is decided on."""
    layers.state.set_back(round_.ended.ended_at_us)
    layers.state.begin_round(round_.ended.now_s)
    layers.budgets.begin_round(round_.ended.now_s)
    layers.decide.begin_round(round_.ended.now_s)
    return ()


def play_published(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Let decisions come true that were published before the state was restored. Before anything is
    decided, so that nothing is decided otherwise."""
    layers.decide.published.play(round_.ended)
    return ()


def withdraw(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Withdraw starts that must not take place. After the played ones, which it does not repeat."""
    published = layers.decide.published
    for outcome in layers.decide.withdrawals.of_round(round_.ended.now_s):
        publish = round_.decisions.of(outcome)
        payload = publish.event.payload
        if not (isinstance(payload, PlacementDecided) and published.has(payload)):
            yield publish


def pass_time(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """End drains, and notice silent meters, broken guarantees and exceeded caps. Before the queue
    is looked at, which depends on the nodes that take jobs."""
    yield from layers.state.nodes.of_round(round_.ended)
    yield from layers.budgets.pass_time(round_.ended)
    if layers.budgets.close_nodes():
        layers.decide.refresh_all()


def admit(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Accept or reject the jobs that arrived. Before they are evaluated: rejected jobs are not."""
    layers.evaluate.admit(may_reject=not round_.decided)
    return ()


def settle(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Note the jobs that something happened to, and drop dependencies that are met. Needs what was
    admitted, rejected and withdrawn."""
    round_.touched = layers.decide.settle()
    return ()


def evaluate(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Evaluate the jobs that arrived, and those that updates concern. Needs the touched jobs."""
    waiting = layers.decide.waiting_jobs.jobs
    anew = layers.evaluate.evaluate_updated(round_.touched, waiting)
    layers.state.forget_undeclared()
    layers.evaluate.estimate_draws()
    offered = layers.evaluate.offer_slower_modes([*round_.touched, *anew])
    round_.changed = [*round_.touched, *anew, *offered]
    return ()


def follow_plan(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Put a proposed plan in force. Needs candidates of all jobs that wait."""
    round_.changed += layers.decide.follow_plan(round_.ended)
    return ()


def refresh_queue(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Bring the entries of the queue up to date. Needs all jobs that changed."""
    layers.decide.refresh(round_.changed)
    return ()


def take_measures(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Ask running jobs for what operators and caps want. Before the pass, which starts jobs beside
    what is committed then."""
    for asked in layers.measures.before_pass(round_.ended.now_s):
        yield round_.decisions.of(asked)


def start_jobs(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Pass over the queue until no job in it is over a limit, and start what may start. Needs the
    queue and what is committed under caps."""
    decide, now_s, idle = layers.decide, round_.ended.now_s, 0
    # Each pass without a start may send one job back.
    most_idle = _MOST_IDLE_PASSES + len(decide.waiting_jobs)
    while True:
        plan = decide.pass_over_queue(now_s)
        written = layers.explain.of_pass(round_.decisions, Refusals(plan))
        idle += 1
        for starting in decide.starting(plan):
            idle = 0
            # What keeps it from the other choices is read before the job has its nodes.
            compared, instead_of = written.before_start(starting)
            yield written.started(decide.take(starting, now_s), compared, instead_of)
        if not decide.needs_another_pass(plan):
            decide.end_passes(plan)
            round_.last_pass = written
            return
        if idle > most_idle:
            raise EndlessPassesError(f"{idle} passes started nothing, and another is asked for")


def answer_interactive(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Work out when interactive jobs start that did not start at once, and reject those that start
    too late: then others may start that they kept waiting. Needs the last pass."""
    interactive, now_s = layers.decide.interactive_jobs, round_.ended.now_s
    jobs = interactive.are_to_answer(round_.touched, now_s)
    if not jobs:
        return
    most = interactive.take_allowance(now_s)
    expected = layers.explain.queries.expected_starts(now_s, most)
    round_.expected = interactive.answer(jobs, now_s, expected)
    if not all(job.waits for job in jobs):
        yield from start_jobs(layers, round_)


def publish_waiting(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Publish why the other jobs wait, where that changed. Needs the last pass."""
    assert round_.last_pass is not None
    for publish in layers.explain.of_waiting(round_.last_pass):
        decided = publish.event.payload
        if isinstance(decided, PlacementDecided) and decided.job_id in round_.expected:
            write_expected(decided, round_.expected[decided.job_id])
        yield publish


def share_watts(layers: Layers, round_: RoundInHand) -> Iterable[Publish]:
    """Free watts for jobs that lack nothing else, or give running jobs what is left. Needs what the
    last pass reserved."""
    assert round_.last_pass is not None
    for asked in layers.measures.after_pass(round_.last_pass.refusals.refusals):
        yield round_.decisions.of(asked)


# What follows from the events of a round, and what is decided then, unless it was before.
FOLLOW_UP: Final[tuple[Phase, ...]] = (
    forget,
    play_published,
    withdraw,
    pass_time,
    admit,
    settle,
    evaluate,
    follow_plan,
    refresh_queue,
)
DECIDE: Final[tuple[Phase, ...]] = (
    take_measures,
    start_jobs,
    answer_interactive,
    publish_waiting,
    share_watts,
)
