"""The evidence for one failure: its counterfactuals beside their controls, where its row looked, and its heads."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.content.failures import FailureContent, TrialContent
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.failures_reports import Chosen
from workbench.dashboard.parts import link, table, token
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.numbers import signed
from workbench.reports.failures_words import TRIED, aftermath_text

# Where a head's attention went, by kind of key; as the HTML report calls them.
_KINDS = {
    "source": "Source",
    "competitor": "Competitors",
    "string": "Rest of string",
    "copy": "Copy so far",
    "anchor": "Anchors",
}
_VERDICTS = {"confirmed": "is-yes", "unconfirmed": "is-unsure", "refuted": "is-no"}


def evidence(chosen: Chosen, attention: ViewState | None, runs: ViewState | None) -> list[Component]:
    """Return what the report holds of the selected failure beside the string.

    Args:
        chosen: the failure.
        attention: the view of its captured string, None where it is not captured.
        runs: the view of pages that run a model on it, None where it is too long for them.
    """
    failure = chosen.failure
    if failure is None:
        return []
    parts = [html.H2("Evidence"), html.P(sentence(visible_text(failure.sentence)))]
    if failure.also:
        parts.append(html.P(f"Confirmed as well: {visible_text(', '.join(failure.also))}.", className="quiet"))
    parts += trials(failure)
    parts.append(html.P(looked(failure)))
    parts += [html.P(line) for line in outside(failure)]
    parts.append(html.P([html.B("Then, left to itself: "), aftermath_text(failure.aftermath, failure), "."]))
    return parts + heads(chosen, attention, runs)


def trials(failure: FailureContent) -> list[Component]:
    """Return the table of counterfactuals and controls; nothing where none could be tried."""
    if not failure.trials:
        return []
    columns = (
        ("Tried", ""),
        ("Mended as predicted", "number"),
        ("By the control", "number"),
        ("Edits", "number"),
        ("Verdict", ""),
    )
    rows = []
    for trial in failure.trials:
        words = TRIED.get(trial.cause)
        hint = f"Counterfactual: {words[1]}. Control: {words[3]}." if words else ""
        rows.append(
            [
                html.Span(visible_text(trial.cause), title=hint),
                _bar(_share(trial), f"as predicted, of {trial.draws:,} edited strings"),
                _bar(trial.control, f"of {trial.draws:,} edited strings"),
                f"{trial.changed:.1f}",
                html.Span(visible_text(trial.verdict), className=_VERDICTS.get(trial.verdict, "is-unknown")),
            ]
        )
    shown = table(columns, rows, "Counterfactuals beside their controls", className="trials")
    note = "Shares of edited strings on which the copy is right again as the cause predicts; for stop, wrong again."
    return [html.Div(shown, className="scroll", tabIndex=0), html.P(note, className="quiet")]


def looked(failure: FailureContent) -> list[Any]:
    """Return where the failed row looked, and what it said, in a sentence."""
    attended = failure.evidence.get("attended")
    attended = attended if isinstance(attended, dict) else {}
    masses = [
        ("the true source", attended.get("mass_source")),
        ("anchors", attended.get("mass_anchors")),
        (
            f"{len(failure.competitors)} competitors" if failure.competitors else "competitors",
            attended.get("mass_competitors"),
        ),
    ]
    known = [f"{value:.2f} on {name}" for name, value in masses if isinstance(value, int | float)]
    chance = attended.get("mass_random")
    beside = (
        f" ({chance:.2f} on as many random places)" if isinstance(chance, int | float) and failure.competitors else ""
    )
    said = f"The deciding attention of the failed row: {', '.join(known)}{beside}. " if known else ""
    return [
        said, "Logits: ", token(failure.right), f" {failure.logit_right:.2f}, ", token(failure.predicted),
        f" {failure.logit_predicted:.2f}.",
    ]  # fmt: skip


def outside(failure: FailureContent) -> list[str]:
    """Return the coordinates of the failed row that training never showed, in a sentence a layer."""
    found = failure.evidence.get("coordinates")
    lines = []
    for at in found if isinstance(found, list) else []:
        if not (isinstance(at, dict) and at.get("outside") is True):
            continue
        name = visible_text(str(at.get("name", "coordinate")))[:40]
        offsets = at.get("trained_offset")
        known = {key: value for key, value in at.items() if _number(value)}
        said = []
        if {"query", "trained"} <= known.keys():
            said.append(f"{name} {known['query']:,.6g} at the row, trained up to {known['trained']:,.6g}")
        if (
            {"query", "source"} <= known.keys()
            and isinstance(offsets, list)
            and [*map(_number, offsets)] == [True, True]
        ):
            away = known["query"] - known["source"]
            said.append(f"{away:,.6g} from its source, trained on {offsets[0]:,.6g} to {offsets[1]:,.6g}")
        if said:
            lines.append(f"Layer {at.get('layer')}: {'; '.join(said)}.")
    return lines


def heads(chosen: Chosen, attention: ViewState | None, runs: ViewState | None) -> list[Component]:
    """Return what every head did at the failed row, where the report looked inside; see `evidence`."""
    failure = chosen.failure
    assert failure is not None
    if failure.anatomy is None:
        said = "Heads: the report looks inside the first few failures of each cause, and not inside this one."
        return [html.P(said, className="quiet")]
    try:
        shown = _heads_table(chosen, failure, failure.anatomy, attention, runs)
        broken = _stripes(failure.anatomy.get("stripes", []), chosen.content.trained[1])
    except (KeyError, TypeError, ValueError, AttributeError):
        return [html.P("What this report holds of the heads could not be read; make it again.", className="quiet")]
    more = [html.P(broken)] if broken else []
    return [html.H2("Heads at the failed row"), html.Div(shown, className="scroll", tabIndex=0), *more]


def _heads_table(
    chosen: Chosen,
    failure: FailureContent,
    anatomy: Mapping[str, Any],
    attention: ViewState | None,
    runs: ViewState | None,
) -> Component:
    columns = [
        ("Head", ""),
        *((name, "number") for name in _KINDS.values()),
        ("Would copy", ""),
        (f"To {visible_text(failure.right)}", "number"),
        (f"To {visible_text(failure.predicted)}", "number"),
        ("", ""),
    ]
    rows = []
    for head in anatomy["heads"]:
        layer, number = int(head["layer"]), int(head["head"])
        name: Any = f"{layer}.{number}"
        without: Any = ""
        if runs is not None and min(layer, number) >= 0:
            there = runs.change(heads=((layer, number),), layer=layer, head=number)
            without = link("ablate", "/intervene" + there.query(), title=f"Intervene: this string without head {name}")
        if attention is not None and min(layer, number) >= 0:
            there = attention.change(layer=layer, head=number, row=chosen.row)
            name = link(name, "/attention" + there.query(), title=f"Head {name} at the failed row, in Attention")
        rows.append(
            [
                name,
                *(f"{float(head['mass'][kind]):.2f}" for kind in _KINDS),
                token(str(head["copied"])) if head["copied"] else "–",
                signed(float(head["to_right"])),
                signed(float(head["to_predicted"])),
                without,
            ]
        )
    return table(columns, rows, "Attention of each head by kind of key, and what it adds to the two logits",
                 className="failed-heads")  # fmt: skip


def _stripes(stripes: Sequence[Mapping[str, Any]], trained: int) -> str:
    broken = [
        f"the {visible_text(str(stripe['stripe']))} stripe of head {stripe['layer']}.{stripe['head']} breaks at index "
        f"{stripe['at']:,} ({float(stripe['relative']):.2f} of {trained:,})"
        for stripe in stripes
        if stripe["at"] is not None
    ]
    return sentence("; ".join(broken)) if broken else ""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(trial: TrialContent) -> float:
    return trial.share if trial.left is None else trial.left


def _bar(share: float, title: str) -> Component:
    """A share as a number with a bar below."""
    return html.Span(f"{share:.0%}", className="share", style={"--p": f"{min(1.0, max(0.0, share)):.3f}"}, title=title)
