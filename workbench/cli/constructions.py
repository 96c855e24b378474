"""`workbench constructions`: the hand-built models and the roles of their heads; `check-labels`: are they found."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from models.errors import UsageError
from workbench.cli.options import JsonOption
from workbench.cli.output import Output, require_writable
from workbench.files import replacing, write_text
from workbench.images import FORMATS, render
from workbench.progress import Bar

_PERCENT = 100


def constructions(json: JsonOption = None) -> None:
    """List the hand-built models, whose heads have a known role; measure one with: workbench evaluate built:NAME."""
    from models.constructions import CONSTRUCTIONS

    output = Output(json)
    listed = [CONSTRUCTIONS[name] for name in CONSTRUCTIONS]
    output.table(
        "Hand-built models; measure one with: workbench evaluate built:NAME",
        ["name", "scheme", "heads, layer by layer", ">longest", *(["what it is"] if output.roomy else [])],
        [
            [
                entry.name,
                entry.model.scheme_name,
                "; ".join(", ".join(heads) for heads in entry.roles),
                f"{entry.longest:,}",
                *([entry.description] if output.roomy else []),
            ]
            for entry in listed
        ],
    )
    output.json(
        {
            "constructions": [
                {
                    "name": entry.name,
                    "description": entry.description,
                    "scheme": entry.model.scheme_name,
                    "layers": entry.model.n_layers,
                    "heads": list(entry.model.heads),
                    "expected": [asdict(role) for role in entry.expected],
                    "distributions": list(entry.distributions),
                    "longest": entry.longest,
                    "claims": list(entry.claims),
                    "marks": [mark.model_dump(mode="json") for mark in entry.marks],
                }
                for entry in listed
            ]
        }
    )


def check_labels(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Constructions; all by default.")
    ] = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise", help="Also label them with noise on their weights; --out and --plot need it and do it."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the page as Markdown.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw labels against noise, as .svg or .png.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Label the heads of hand-built models as what they were built for. Exit code 1 where a label is wrong."""
    output = Output(json)
    for option, path in (("--out", out), ("--plot", plot)):
        if path is not None:
            require_writable(f"{option} {path}", path)
    if plot is not None and plot.suffix.lower().removeprefix(".") not in FORMATS:
        raise UsageError(f"--plot {plot}: the ending says what is written; give one of {', '.join(FORMATS)}")
    from analyses.ground_truth import LENGTHS, Check, as_markdown, check_construction, noise_curve, page
    from analyses.noise import NoiseCurve
    from models.constructions import CONSTRUCTIONS

    asked = dict.fromkeys(name.removeprefix("built:") for name in (names or CONSTRUCTIONS))
    chosen = [CONSTRUCTIONS[name] for name in asked]
    wanted = [
        (entry, length, distribution)
        for entry in chosen
        for length in LENGTHS
        if length <= entry.longest
        for distribution in entry.distributions
    ]
    found: list[Check] = []
    with Bar(output.progress, "labelling", len(wanted)) as bar:
        for entry, length, distribution in wanted:
            found += check_construction(entry, length, distribution)
            bar.advance(1)
    curves: dict[str, NoiseCurve] = {}
    if noise or out is not None or plot is not None:
        with Bar(output.progress, "with noise", len(chosen)) as bar:
            for done, entry in enumerate(chosen):
                curves[entry.name] = noise_curve(entry, progress=partial(_advance, bar, done))
    output.line(as_markdown(found))
    if out is not None:
        write_text(out, page(found, curves))
    if plot is not None:
        from workbench.figures.noise import label_noise

        with replacing(plot.absolute()) as temporary:
            figure = label_noise(curves)
            size = {"width": figure.layout.width, "height": figure.layout.height}
            temporary.write_bytes(render(figure, plot.suffix.lower().removeprefix("."), **size))
    wrong = [check for check in found if not check.right]
    output.json(
        {
            "labels": [
                {
                    "construction": check.construction,
                    "length": check.length,
                    "distribution": check.distribution,
                    "layer": check.label.layer,
                    "head": check.label.head,
                    "expected": check.expected,
                    "label": check.label.label,
                    "margin": check.label.margin,
                    "certain": check.label.certain,
                }
                for check in found
            ],
            "right": len(found) - len(wrong),
            "noise": {
                name: {
                    "levels": curve.levels.tolist(),
                    "right": [estimate.value for estimate in curve.accuracy],
                    "certain": curve.certain.tolist(),
                    "surely_wrong": curve.surely_wrong.tolist(),
                }
                for name, curve in curves.items()
            },
        }
    )
    output.line(f"{len(found) - len(wrong)} of {len(found)} labels are right")
    if wrong:
        raise typer.Exit(1)


def _advance(bar: Bar, done: int, share: float) -> None:
    bar.update(done + share)
