"""The one registry pattern: lookup, misses, duplicates."""

import pytest

from models.errors import UsageError, WorkbenchError
from models.registry import Registry, unknown


@pytest.fixture
def fruits() -> Registry[int]:
    registry: Registry[int] = Registry("fruit")
    registry.register("apple")(1)
    registry.register("pear")(2)
    return registry


def test_entries_come_back_under_their_names_in_order(fruits: Registry[int]) -> None:
    assert list(fruits) == ["apple", "pear"]
    assert [fruits[name] for name in fruits] == [1, 2]
    assert len(fruits) == 2
    assert "pear" in fruits
    assert "plum" not in fruits


def test_register_returns_what_it_files(fruits: Registry[int]) -> None:
    assert fruits.register("plum")(3) == 3


def test_a_name_taken_is_refused_and_keeps_its_entry(fruits: Registry[int]) -> None:
    with pytest.raises(UsageError, match="fruit 'apple' is registered already"):
        fruits.register("apple")(9)
    assert fruits["apple"] == 1


@pytest.mark.parametrize("name", ["aple", "zebra", "", 3, None, []])
def test_a_miss_names_what_was_given_and_what_is_known(fruits: Registry[int], name: object) -> None:
    with pytest.raises(UsageError) as raised:
        fruits[name]  # type: ignore[index]
    message = str(raised.value)
    assert f"unknown fruit {name!r}" in message
    assert "apple, pear" in message
    assert ("Did you mean 'apple'?" in message) == (name == "aple")
    assert raised.value.__suppress_context__  # no KeyError above it for a person to read


def test_an_empty_registry_says_that_nothing_is_known() -> None:
    assert unknown("fruit", "apple", Registry("fruit")) == "unknown fruit 'apple'. Known: none"
    message = unknown("run", "rope", (f"run-{i}" for i in range(500)))
    assert message.endswith("run-39 and 460 more") and len(message) < 500


def test_exit_codes_tell_usage_from_failure() -> None:
    assert UsageError.exit_code == 2
    assert WorkbenchError.exit_code == 1
    assert issubclass(UsageError, ValueError)  # so that a settings validator reports it as a bad value
