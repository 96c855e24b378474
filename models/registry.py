"""One registry pattern for everything that can be extended: schemes, distributions, analyses, pages."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from models.errors import UsageError

T = TypeVar("T")
_LISTED = 40  # known names in a message


class Registry(Generic[T]):
    """Names mapped to implementations.

    Attributes:
        kind: what is registered, singular, used in error messages ("scheme").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its argument under `name`; a name taken already raises UsageError."""

        def file(entry: T) -> T:
            if name in self._entries:
                raise UsageError(f"{self.kind} {name!r} is registered already; choose another name")
            self._entries[name] = entry
            return entry

        return file

    def __getitem__(self, name: str) -> T:
        """Return the entry called `name`; a miss raises UsageError that lists the known names."""
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            raise UsageError(unknown(self.kind, name, self._entries)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Return the message for a name that is not known: the name, a near match if any, and the first known names."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"unknown {kind} {name!r}.{hint} Known: {', '.join(names[:_LISTED]) or 'none'}{more}"
