"""`benchmark.method: multilingual`: the L* of all languages from one short training of all of them.

Its losses L_i differ from those of the paper's bitext models by a common offset and by what the languages learn from
each other: L_i = L*_i + d + e_i. Competence 2^(L_i - loss_i) has the offset as a factor 2^d. In the weights of
`inverse-competence` it cancels. For the gate it is as if the threshold were lower by that factor. The training alone
cannot tell d, so by default competence 1 means "as good as the short training"; `benchmark.level`, the mean over the
HRLs that competence 1 shall mean, removes it. docs/studies.md has the details.
"""

import math
from collections.abc import Mapping

from cclm.data.pretrained import is_run
from cclm.errors import ConfigError
from cclm.experiments.early_checks import task_languages
from cclm.formats.run_folder import MULTILINGUAL
from cclm.recipe.schema import Recipe
from cclm.training.run_inputs import sizes_of

SHORTER_BY = 12
"""The main training has this many times the steps of the short one, unless `benchmark.max_steps` is set. The short one
may cost at most a tenth of its target tokens; with more steps it could exceed that, where batches of LRLs are small."""
TAU = 2.0
"""Temperature of the short training: HRLs, whose competence the gate uses, are drawn most, and no LRL is starved."""
VALIDATIONS = 5
"""The least number of validations of the short training."""


def untrained_model(recipe: Recipe) -> dict[str, object]:
    """The model section for L*: without the run that the recipe continues, which knows the languages already."""
    if not is_run(recipe.model.pretrained):
        return recipe.model.model_dump(mode="json")
    return {name: value for name, value in sizes_of(recipe).model_dump(mode="json").items() if name != "pretrained"}


def multilingual_recipe(recipe: Recipe) -> Recipe:
    """The recipe of the short training: all languages by temperature, and a learning rate that decays to zero."""
    steps = recipe.benchmark.max_steps or max(1, recipe.training.max_steps // SHORTER_BY)
    validate_every = min(recipe.training.validate_every, max(1, steps // VALIDATIONS))
    training = recipe.training.model_copy(
        update={
            "max_steps": steps,
            "warmup": min(recipe.training.warmup, steps // VALIDATIONS),
            "schedule": "wsd",
            "decay": None,
            "validate_every": validate_every,
            "stop_on": "macro",
            "select_on": "macro",
            "bleu": False,  # L* is a loss
        }
    )
    content = recipe.model_dump(mode="json", exclude={"graph", "benchmark"})
    content["name"] = MULTILINGUAL
    content["model"] = untrained_model(recipe)
    content["benchmark"] = {"method": "none"}
    content["curriculum"] = {
        "gate": {"name": "all"},
        "sampler": {"name": "temperature", "tau": TAU},
        "every": validate_every,
        "dev_sample": recipe.curriculum.dev_sample,
    }
    content["training"] = training.model_dump(mode="json")
    return Recipe.model_validate(content)


def at_level(losses: Mapping[str, float], recipe: Recipe) -> dict[str, float]:
    """The losses, all shifted by the same number of bits, so that their mean over the HRLs is `benchmark.level`."""
    level = recipe.benchmark.level
    if level is None:
        return dict(losses)
    hrls, _ = recipe.data.by_resource(task_languages(recipe.data))
    offset = math.fsum(losses[name] for name in hrls) / len(hrls) - level
    if wrong := sorted(name for name, loss in losses.items() if loss <= offset):
        raise ConfigError(
            f"benchmark.level {level:g} is {offset:.2f} bits below the HRLs of the multilingual training, and L* of"
            f" {', '.join(wrong)} would not be above 0; give the mean dev loss of the HRLs in bits per token"
        )
    return {name: loss - offset for name, loss in losses.items()}
