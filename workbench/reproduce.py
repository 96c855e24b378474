"""Do the recipes reach the marks they claim: several seeds trained and measured, reusing what the store has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from models.config import Mark, Recipe
from models.errors import UsageError
from models.evaluation import Score, evaluate
from models.recipes import load_recipe, override, recipe_names
from models.tasks import CopyTask
from models.transformer import CopyTransformer

Train = Callable[[Recipe], CopyTransformer]


@dataclass(frozen=True)
class MarkResult:
    """What was measured for one mark and one distribution.

    Attributes:
        recipe: name.
        length: source string length.
        distribution: registered name.
        strings: strings a seed.
        exact_match: of every seed, in order.
        at_least, at_most: what the recipe claims of the mean; 0 and 1 where it claims nothing.
    """

    recipe: str
    length: int
    distribution: str
    strings: int
    exact_match: tuple[float, ...]
    at_least: float
    at_most: float

    @property
    def mean(self) -> float:
        """Mean exact match over seeds."""
        return fmean(self.exact_match)

    @property
    def met(self) -> bool | None:
        """Does the mean lie in the claimed bounds; None where the recipe claims nothing."""
        if self.at_least == 0 and self.at_most == 1:
            return None
        return self.at_least <= self.mean <= self.at_most

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "recipe": self.recipe,
            "length": self.length,
            "distribution": self.distribution,
            "strings": self.strings,
            "exact_match": self.mean,
            "seeds": list(self.exact_match),
            "at_least": self.at_least,
            "at_most": self.at_most,
            "met": self.met,
        }


def recipes_with_marks(names: Sequence[str] = ()) -> list[Recipe]:
    """Return the recipes `names`, or all that claim marks; UsageError for one that is unknown or claims none."""
    recipes = [load_recipe(name) for name in names or recipe_names()]
    if not names:
        return [recipe for recipe in recipes if recipe.marks]
    for recipe in recipes:
        if not recipe.marks:
            raise UsageError(f"recipe {recipe.name} claims no marks, so there is nothing to reproduce; evaluate a run")
    return recipes


def reproduce(recipe: Recipe, seeds: Sequence[int], train: Train) -> Iterator[MarkResult]:
    """Train `recipe` with every seed (`train` returns a finished model) and yield the result of each of its marks."""
    seeded = [override(recipe, [f"seed={seed}"]) for seed in seeds]
    scores = [_measure(train(one), one) for one in seeded]
    for mark in recipe.marks:
        for distribution in mark.distributions:
            yield MarkResult(
                recipe=recipe.name,
                length=mark.length,
                distribution=distribution,
                strings=mark.strings,
                exact_match=tuple(found[mark.length, distribution].exact_match for found in scores),
                at_least=mark.at_least,
                at_most=mark.at_most,
            )


def _measure(model: CopyTransformer, recipe: Recipe) -> dict[tuple[int, str], Score]:
    task = CopyTask(recipe.task)
    return {
        (mark.length, score.distribution): score
        for mark in recipe.marks
        for score in _scores(model, task, mark, recipe.seed)
    }


def _scores(model: CopyTransformer, task: CopyTask, mark: Mark, seed: int) -> Iterator[Score]:
    return evaluate(
        model,
        task,
        intervals=[(mark.length, mark.length)],
        distributions=mark.distributions,
        strings=mark.strings,
        seed=seed,
    )
