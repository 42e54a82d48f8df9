"""What is really true of each run: the laws, with what the seed says of the application and of the
job."""

from lab.emulator.effects import EVERY, Effect
from lab.emulator.truth.kernels import KERNELS, kernel_profile, kernel_traits
from lab.emulator.truth.laws import Behaviour, Conditions, behaviour
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.traits import PUBLISHED_INPUT, AppTraits, input_of, traits_of, unevenness
from lab.workloads.request import JobRequest
from lab.workloads.table1 import PublishedNodeModel, profile


class EmulatedTruth:
    """The mean run of kernels, applications and jobs; a function of the seed and of `effects`."""

    def __init__(self, noise: Noise, effects: frozenset[Effect] = EVERY) -> None:
        self._noise, self._effects = noise, effects
        self._traits: dict[str, AppTraits] = {}

    def kernel(self, name: str, model: PublishedNodeModel, freq_ghz: float) -> Behaviour:
        """Return a kernel of the learning phase."""
        traits = kernel_traits(name, self._noise)
        nominal = kernel_profile(KERNELS[name], model, self._effects)
        return behaviour(nominal, model, freq_ghz, Conditions(traits, effects=self._effects))

    def application(self, app_id: str, model: PublishedNodeModel, freq_ghz: float) -> Behaviour:
        """Return an application with its published input on one node, as operators profile it."""
        conditions = Conditions(self.traits(app_id), effects=self._effects)
        return behaviour(profile(app_id, model.name), model, freq_ghz, conditions)

    def job(
        self, request: JobRequest, job: str, model: PublishedNodeModel, freq_ghz: float, nodes: int
    ) -> tuple[Behaviour, float]:
        """Return a job alone on so many nodes, and how often it repeats what its signature is of.

        An input that takes longer is repeated less often: users ask for what they know that they
        need.
        """
        app_id = request.true_app_id
        traits = self.traits(app_id)
        given = PUBLISHED_INPUT
        if Effect.INPUTS in self._effects:
            given = input_of(self._noise, traits, app_id, request.user, job)
        conditions = Conditions(
            traits, given, unevenness(self._noise, traits, job, nodes), self._effects
        )
        seen = behaviour(profile(app_id, model.name), model, freq_ghz, conditions)
        return seen, request.repetitions / given.time

    def traits(self, app_id: str) -> AppTraits:
        """Return what was drawn of an application, less what is switched off."""
        if app_id not in self._traits:
            drawn, effects = traits_of(self._noise, app_id), self._effects
            self._traits[app_id] = drawn._replace(
                clock_share=drawn.clock_share if Effect.TIME in effects else 1.0,
                waiting=drawn.waiting if Effect.WAITING in effects else 0.0,
                imbalance=drawn.imbalance if Effect.IMBALANCE in effects else 0.0,
            )
        return self._traits[app_id]
