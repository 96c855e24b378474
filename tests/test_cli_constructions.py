"""Hand-built models on the command line: listed, and measured as `built:NAME`."""

import json
from collections.abc import Callable

import pytest

from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from workbench.runs import Store
from workbench.subjects import load_subject

Workbench = Callable[..., tuple[int, str, str]]


def test_constructions_are_listed_with_the_role_of_every_head(workbench: Workbench) -> None:
    code, out, _ = workbench("constructions", "--json", "-")
    listed = json.loads(out)["constructions"]
    assert code == 0 and [entry["name"] for entry in listed] == list(CONSTRUCTIONS)
    for entry in listed:
        assert entry["description"] and entry["claims"] and entry["layers"] == len(entry["heads"])
        heads = [(layer, head) for layer, n in enumerate(entry["heads"]) for head in range(n)]
        assert [(role["layer"], role["head"]) for role in entry["expected"]] == heads
        assert all(role.keys() == {"layer", "head", "role"} and role["role"] for role in entry["expected"])
    table = workbench("constructions")[1]
    assert all(entry["name"] in table and entry["expected"][0]["role"] in table for entry in listed)


@pytest.mark.parametrize(
    ("name", "distribution", "exact"),
    [
        ("rope2d-aligned", "recursive-flip", 1.0),
        ("induction", "unique-context", 1.0),
        ("induction", "recursive-flip", 0.0),
        ("rope-locator", "imbalanced", 1.0),
    ],
)
def test_built_models_are_evaluated(
    workbench: Workbench, store: Store, name: str, distribution: str, exact: float
) -> None:
    ask = ("--lengths", "50", "--distributions", distribution, "--strings", 5, "--store", store.root)
    code, out, err = workbench("evaluate", f"built:{name}", *ask, "--json", "-")
    measured = json.loads(out)
    assert code == 0 and measured["subject"] == f"built:{name}" and f"built:{name}, 5 strings" in err
    assert [score["exact_match"] for score in measured["results"]] == [exact]


def test_a_built_model_is_evaluated_where_its_roles_are_defined(workbench: Workbench, store: Store) -> None:
    code, out, _ = workbench("evaluate", "built:induction", "--store", store.root, "--json", "-")
    results = json.loads(out)["results"]
    assert code == 0 and {(score["distribution"], score["length"]) for score in results} == {
        ("unique-context", 20),
        ("unique-context", 100),
    }
    assert all(score["exact_match"] == 1 for score in results)


def test_an_unknown_name_lists_the_known(workbench: Workbench, store: Store) -> None:
    code, _, err = workbench("evaluate", "built:nothing", "--store", store.root)
    assert code == 2 and all(name in err for name in CONSTRUCTIONS)
    with pytest.raises(UsageError, match="no checkpoint 3"):
        load_subject(store, "built:sink", "cpu", checkpoint=3)


def test_a_built_subject_has_no_run(store: Store) -> None:
    subject = load_subject(store, "built:sink", "cpu")
    assert subject.run is None and subject.step == 0 and subject.recipe.name == "sink"
    assert not store.root.exists()
