"""What every label of a head predicts: an intervention, its control, and which of them harms the answers more."""

from collections.abc import Callable
from dataclasses import dataclass

from analyses.ablation import Ablation
from analyses.knockout import Flatten, Knockout
from analyses.outcomes import Heads, Intervention
from models.errors import UsageError
from models.registry import unknown

MORE, LESS = "more than the control", "less than the control"
Build = Callable[[Heads, int], tuple[Intervention, Intervention]]


@dataclass(frozen=True)
class Expectation:
    """What has to happen where a label is right.

    Attributes:
        intervention, control: in words.
        effect: harm to the answers, MORE or LESS; empty where a label predicts nothing.
        sentence: what a confirmation means.
        build: from heads and a number (of the label, or the order of context) to the intervention and its control.
        conflict: the same for conflict strings, where there is more to be asked on them.
    """

    intervention: str
    control: str
    effect: str
    sentence: str
    build: Build | None = None
    conflict: Build | None = None


def _knockout(keys: str, rows: str = "scored") -> Build:
    def build(heads: Heads, number: int) -> tuple[Intervention, Intervention]:
        knockout = Knockout(keys.format(number), heads, rows=rows)
        return knockout, knockout.matched

    return build


def _attention(intervention: str, sentence: str, build: Build, conflict: Build | None = None) -> Expectation:
    control = "the same mass removed at random other keys"
    return Expectation(intervention, control, MORE, sentence, build, conflict)


# What each family of labels predicts; a report shows this table.
EXPECTATIONS: dict[str, Expectation] = {
    "locator": Expectation(
        "outputs resampled from other indices and lengths",
        "outputs resampled from the same place in other strings",
        MORE,
        "the answers depend on the place this head points out: outputs of other places hurt more than outputs of the "
        "same place in other strings do",
        lambda heads, _: (Ablation(heads, "resample"), Ablation(heads, "same-place")),
    ),
    "aligned": _attention(
        "true source masked at scored rows",
        "the answers depend on this head's attention to the true source, also where the context points elsewhere",
        _knockout("source"),
        _knockout("conflict-source({})"),
    ),
    "induction": _attention(
        "keys after earlier occurrences of the last m tokens masked at scored rows",
        "the answers depend on this head's attention to the tokens after earlier occurrences of the context, also "
        "where the true source is not among them",
        _knockout("candidates({})"),
        _knockout("conflict-candidates({})"),
    ),
    "look-back": _attention(
        "the token k back masked at all rows",
        "the answers depend on this head's attention to the token k back",
        _knockout("back({})", "all"),
    ),
    "duplicate": _attention(
        "earlier occurrences of the query's token masked at all rows",
        "the answers depend on this head's attention to earlier occurrences of the query's token",
        _knockout("duplicates", "all"),
    ),
    "sink": _attention(
        "the first token masked at all rows",
        "the first token keeps this head's mass from where it would change the answers",
        _knockout("first", "all"),
    ),
    "self": _attention(
        "the query's own position masked at all rows",
        "the answers depend on this head's attention to the query's own position",
        _knockout("self", "all"),
    ),
    "modular": _attention(
        "the first token masked at all rows",
        "the answers depend on this head's attention to the first token at the positions it singles out",
        _knockout("first", "all"),
    ),
    "diffuse": Expectation(
        "attention spread evenly over all visible keys",
        "outputs set to zero",
        LESS,
        "this head chooses no keys that matter: spreading its attention evenly changes the answers less than taking "
        "its output away does",
        lambda heads, _: (Flatten(heads), Ablation(heads, "zero")),
    ),
    "mixed": Expectation("none", "none", "", "a mixed head has no single role, so its label predicts nothing"),
    "unclear": Expectation("none", "none", "", "no rule fits this head, so its label predicts nothing"),
}


def family_of(label: str) -> tuple[str, int | None]:
    """Family and number of a label: "look-back(3)" is ("look-back", 3); UsageError where it is unknown."""
    name, _, rest = label.partition("(")
    number = rest.removesuffix(")")
    if name not in EXPECTATIONS or (rest and not number.isdecimal()) or (name == "look-back" and not rest):
        raise UsageError(unknown("label", label, EXPECTATIONS))
    return name, int(number) if number else None
