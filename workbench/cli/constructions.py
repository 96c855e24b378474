"""`workbench constructions`: the hand-built models and the roles of their heads."""

from dataclasses import asdict

from workbench.cli.options import JsonOption
from workbench.cli.output import Output


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
