"""The heads report as one offline HTML file: what each head is, on which evidence, and what interventions say."""

from typing import Any

from analyses.confirmation import BEYOND, LEAST_DIVERGENCE, LEAST_SHARE, LEFT
from analyses.measures.base import formulas
from workbench.content.heads import HeadContent, HeadsContent
from workbench.figures.heads import effect_bars, effect_of, score_map, share_bars
from workbench.figures.pictures import colors, png
from workbench.figures.probes import probe_map
from workbench.reports.heads import Examined
from workbench.reports.heads_text import doubts, name_of, number
from workbench.reports.html import Document, Mark, Picture

LABELLING = (
    "Thresholds are on what a score has beyond chance, (value - chance) / (1 - chance), where a chance is known. A "
    "label's margin is the smallest over its conditions of how far the score lies from its threshold: 0 there, 1 at "
    "the best value. A label is certain where no threshold that could change it lies inside the 95 % interval of a "
    "score. What fits no rule is called unclear, and its margin is negative."
)
PICTURED = (
    "Queries run down, keys across; colours are the square root of the weight.",
    "The second picture is of a string in whose copy contexts were corrupted, so that position and context point to "
    "different places: a head that reads by position draws the same diagonal there, one that reads by context does "
    "not.",
)
STATES = {"confirmed": "good", "not confirmed": "bad", "no effect": "quiet", "not measurable": "quiet"}
PALETTE = ("cividis", "sqrt")


def render(examined: Examined) -> str:
    """The file's text."""
    return document(examined).render()


def document(examined: Examined) -> Document:
    """The page."""
    content = examined.content
    page = Document(f"Heads of {content.subject}", f"{content.finding[:1].upper()}{content.finding[1:]}.")
    _summary(page, examined)
    _evidence(page, examined)
    _interventions(page, content)
    if content.paths:
        _paths(page, content)
    if examined.probes:
        _probes(page, examined)
    _method(page, content)
    return page


def _summary(page: Document, examined: Examined) -> None:
    content = examined.content
    page.section(
        "What each head is",
        f"Weights after {content.step:,} steps of {content.recipe}."
        if content.step
        else f"Hand-built weights of {content.recipe}.",
        *(PICTURED[:1] if examined.pictures else ()),
        *(PICTURED[1:] if any("corrupted" in kinds for kinds in examined.pictures.values()) else ()),
    )
    add_heads(page, examined)
    page.figure(
        share_bars(content.heads),
        "What each pattern is made of, by one non-negative fit of all templates at once.",
    )


def add_heads(page: Document, examined: Examined) -> None:
    """Add the table of heads: pictures, labels, deciding scores, and what the interventions say."""
    content = examined.content
    built = any(head.expected for head in content.heads)
    seen = {kind for kinds in examined.pictures.values() for kind in kinds}
    columns = {kind: name for kind, name in (("plain", "pattern"), ("corrupted", "corrupted")) if kind in seen}
    page.table(
        [
            "head",
            *columns.values(),
            "label",
            *(["built as"] if built else []),
            ">margin",
            "certain",
            "deciding scores, with 95 % intervals",
            "intervention",
        ],
        [
            [
                Mark(name_of(head), "strong"),
                *(_picture(examined, head, kind) for kind in columns),
                Mark(head.label, "strong"),
                *([head.expected or ""] if built else []),
                f"{head.margin:.2f}",
                "yes" if head.certain else Mark("no", "bad"),
                "; ".join(f"{e.condition}: {number(e)}" for e in head.evidence if e.condition is not None),
                _state(head),
            ]
            for head in content.heads
        ],
    )
    for doubt in doubts(content.heads):
        page.paragraphs(doubt + ".")


def _evidence(page: Document, examined: Examined) -> None:
    content = examined.content
    page.section(
        "All scores",
        "Scores rest on eligible rows only. A dash is a score that could not be measured; the JSON says why.",
    )
    page.figure(score_map(content.heads), "Every score between 0 and 1 of every head.")
    names = list(dict.fromkeys(name for head in content.heads for name in head.scores))
    page.table(
        ["score", *(f">{name_of(head)}" for head in content.heads), ">chance", ">rows"],
        [[name, *(_cell(head, name) for head in content.heads), *_basis(content.heads, name)] for name in names],
    )


def _interventions(page: Document, content: HeadsContent) -> None:
    page.section(
        "What interventions say",
        "A pattern says where a head looks, not whether anything depends on it. Each label predicts an effect beyond "
        "that of a control; a label that is not confirmed is a description of the pattern and no more.",
        f"Confirmed: the intervention harms the answers (by at least {LEAST_SHARE:.0%} of the logit difference, or "
        f"{LEAST_DIVERGENCE:g} nats where the model copies nothing), surely, and at least {BEYOND:.0%} of the harm is "
        f"beyond the control's. A diffuse head may leave at most {LEFT:.0%} of its control's harm. Strings of lengths "
        "and distributions of which the model copies none are left out where it copies others.",
    )
    page.table(
        ["head", "label", "intervention", "control", "measure", ">its effect", ">the control's", "says", "remark"],
        [
            [
                name_of(head),
                head.label,
                *(done.get(which, {}).get("intervention", "") for which in ("effect", "control")),
                done.get("measure", ""),
                *(_effect(effect_of(head, which)) for which in ("effect", "control")),
                _state(head),
                done.get("reason", ""),
            ]
            for head in content.heads
            for done in (head.intervention,)
        ],
    )
    _by_label(page, content)
    figure = effect_bars(content.heads)
    if figure is not None:
        page.figure(figure, "Effect of every intervention beside that of its control, with 95 % intervals.")
    page.table(
        ["label", "intervention", "control", "what a confirmation means"],
        [
            [label, expected["intervention"], expected["control"], expected["sentence"]]
            for label, expected in content.expectations.items()
        ],
        "What each label predicts",
    )


def _by_label(page: Document, content: HeadsContent) -> None:
    """All heads of a label together, and what their absence does to repetitive strings."""
    page.table(
        ["label", "heads", "says", "remark"],
        [
            [
                label,
                ", ".join("{}.{}".format(*head) for head in done.get("heads", [])),
                Mark(str(done.get("state")), STATES.get(str(done.get("state")), "quiet")),
                done.get("reason", ""),
            ]
            for label, done in content.labels.items()
        ],
        "All heads of a label together",
    )
    rows = []
    for label, ways in content.repetition.items():
        for way, effect in ways.items():
            exact = effect["exact_match"]
            rows.append(
                [
                    label,
                    way,
                    *(f"{exact[when]['value']:.2f}" for when in ("baseline", "changed")),
                    _effect(exact["difference"]),
                    _effect(effect["logit_difference"]["difference"]),
                ]
            )
    if rows:
        page.table(
            ["label", "ablation", ">exact match", ">ablated", ">difference", ">change of the logit difference"],
            rows,
            "Ablated on strings that repeat themselves: where heads cause the failures, exact match rises without them",
        )


def _paths(page: Document, content: HeadsContent) -> None:
    page.section(
        "Between layers",
        "Path patching: what a head tells a later one, replaced only in that head's query, key or value input. "
        "Composition norms read weights alone and stand beside it.",
    )
    page.table(
        [
            "from",
            "to",
            "input",
            ">change of attention to the source",
            ">change of logit difference",
            ">composition",
        ],
        [
            [
                "{}.{}".format(*path.sender),
                "{}.{}".format(*path.receiver),
                path.input,
                number(path.source_mass),
                number(path.logit_difference),
                "" if path.composition is None else f"{path.composition:+.3f}",
            ]
            for path in content.paths
        ],
    )


def _probes(page: Document, examined: Examined) -> None:
    page.section(
        "What can be read where",
        "Probes of the residual stream and of every head's output, trained on strings of some lengths and tested on "
        "others; R² of 0 is no better than the mean.",
    )
    for kind, results in examined.probes.items():
        page.subheading(f"{kind} probes")
        page.figure(probe_map(results), f"R² of {kind} probes by site and target.")


def _method(page: Document, content: HeadsContent) -> None:
    page.section("Method")
    page.table(["kind", "distribution", ">length", ">strings"], [list(dict(s).values()) for s in content.strings])
    page.paragraphs(*content.notes)
    page.paragraphs(LABELLING)
    page.table(
        ["label", "conditions", "what it says"],
        [[rule.label, ", ".join(rule.conditions), rule.sentence] for rule in content.rules],
        "Rules, in order; the first that holds gives the label",
    )
    measured = {name for head in content.heads for name in head.scores}
    page.table(
        ["score", "formula"],
        [[name, formula] for name, formula in formulas().items() if name in measured or "NAME" in name],
        "Formulas",
    )
    page.about(content.about)


def _picture(examined: Examined, head: HeadContent, kind: str) -> Picture | str:
    codes = examined.pictures.get((head.layer, head.head), {}).get(kind)
    if codes is None:
        return ""
    words = f"attention pattern of head {name_of(head)} on a {kind} string of {examined.pictured} tokens"
    return Picture(png(codes, colors(*PALETTE)), words)


def _state(head: HeadContent) -> Mark:
    state = str(head.intervention.get("state", "not measurable"))
    return Mark(state, STATES.get(state, "quiet"))


def _cell(head: HeadContent, name: str) -> str:
    estimate = head.scores.get(name)
    return "–" if estimate is None or estimate.value is None else number(estimate)


def _basis(heads: tuple[HeadContent, ...], name: str) -> list[str]:
    """Chance and rows, from the smallest to the largest of the heads'."""
    known = [head.scores[name] for head in heads if name in head.scores]
    measured = [estimate for estimate in known if estimate.value is not None] or known
    chances = sorted(f"{e.chance:.3f}" for e in measured if e.chance is not None)
    rows = sorted({estimate.rows for estimate in measured})
    ends = [f"{n:,}" for n in dict.fromkeys((rows[0], rows[-1]))]
    return [" to ".join(dict.fromkeys(chances[:1] + chances[-1:])), " to ".join(ends)]


def _effect(estimate: dict[str, Any]) -> str:
    value, interval = estimate.get("value"), estimate.get("interval")
    return "" if value is None or interval is None else f"{value:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]"
