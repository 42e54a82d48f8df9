"""Models of pairs, judged on pairs and queues of a machine that was made up."""

import numpy as np
import pytest

from lab.evaluate.degradation import DegradationScore, Predict
from lab.evaluate.pair_files import PairFiles
from lab.papers.colocation import models
from lab.papers.colocation.pair_rows import profile_sets
from lab.papers.colocation.queues import queued_apps
from lab.papers.colocation.regressors import REGRESSORS
from lab.papers.colocation.search import FIRST, Parameters
from lab.papers.colocation.tuning import PairLearner
from shared.colocation.history import Mask
from shared.colocation.measured import Floats
from shared.colocation.model import Cells
from tests.unit.shared.colocation.machines import made


@pytest.fixture(scope="module")
def files() -> PairFiles:
    profiles, degradation = made(5, machines=1, apps=13)
    return PairFiles(profiles, 2 * degradation, np.full(degradation.shape, np.nan), [])


@pytest.fixture
def _linear_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "REGRESSORS", {"Elastic Net": REGRESSORS["Elastic Net"]})


def _middle(model: str) -> Parameters:
    return {name: of.at(0.5) for name, of in REGRESSORS[model].space.items()}


@pytest.mark.parametrize("model", REGRESSORS)
def test_each_model_learns_the_same_of_the_same_pairs_and_constant_columns_do_not_hurt(
    model: str, files: PairFiles
) -> None:
    columns = np.concatenate([files.profiles.columns(), np.ones((1, 13, 2))], axis=2)
    learner = PairLearner(REGRESSORS[model], columns, files.degradation, seed=1)
    hidden = np.zeros(files.degradation.shape, dtype=np.bool_)
    cells = Cells.with_values(files.degradation)
    first, second = (learner.learned(_middle(model), hidden)(cells) for _ in range(2))
    assert (first == second).all()
    assert np.corrcoef(first, files.degradation[cells])[0, 1] > 0.5


@pytest.mark.usefixtures("_linear_alone")
def test_each_candidate_is_judged_on_the_same_pairs_and_queues(files: PairFiles) -> None:
    features = {"profile": profile_sets(files.profiles)["profile"]}
    found = models.judged(files, features, trials=FIRST + 1, queues=1)
    assert [each.candidate.model for each in found] == ["Elastic Net", models.SHIPS]
    assert len({each.held.rows for each in found}) == 1
    assert len({shares.perfect for each in found for shares in each.told}) == 1
    assert models.of_models(found).count("\n") == 3
    assert models.of_choices(found).count("Elastic Net, profile") == 2


def _knowing(degradation: Floats, seen: list[Mask]) -> models.Candidate:
    """It cheats: it knows all pairs; and notes what it was not to know."""

    def learned(hidden: Mask) -> Predict:
        seen.append(hidden)
        return lambda cells: degradation[cells]

    return models.Candidate("knowing", "pairs", learned, 1.0)


def test_who_knows_all_gains_all_and_learns_of_no_pair_of_the_queue(files: PairFiles) -> None:
    queued, seen = queued_apps(files, 0), list[Mask]()
    shares = models._played(files, _knowing(files.degradation, seen), queued)
    assert shares.blossom == shares.perfect < 1
    assert models.gained([shares]) == 1.0
    of_queue = np.isin(np.arange(13), queued.apps)
    assert seen[0][:, of_queue].all()
    assert seen[0][:, :, of_queue].all()
    assert not seen[0].all()


def _nothing(cells: Cells) -> Floats:
    return np.zeros(len(cells.machine))


def test_a_model_is_chosen_by_queues_that_its_makespans_are_not_reported_of() -> None:
    def judged(model: str, r2: float, told: float, others: float) -> models.Judged:
        candidate = models.Candidate(model, "counters", lambda _: _nothing, r2)
        shares = [[models.PolicyShares(1.0, each, 0.5)] for each in (told, others)]
        return models.Judged(candidate, DegradationScore(9, r2, 0.1), 0.0, *shares)

    found = [judged("fits", 0.9, 0.6, 0.9), judged("pairs", 0.8, 0.7, 0.6)]
    table = models.of_choices(found).splitlines()
    assert table[2] == "| R², cross-validated | fits, counters | 0.900 | 60.0 | 80.0 |"
    assert table[3] == "| makespan of other queues | pairs, counters | 0.800 | 70.0 | 60.0 |"
