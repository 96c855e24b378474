"""A cache bounded by what its values weigh, safe to use from the server's threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """Keeps the most recently used values whose weights add up to at most `budget`.

    Attributes:
        budget: the most that is kept, in the unit of `weigh`.
    """

    def __init__(self, budget: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self.budget = budget
        self._weigh = weigh
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()
        self._building: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, build: Callable[[], V]) -> V:
        """Return the value of `key`, built at most once at a time; one that fails to build is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            building = self._building.setdefault(key, threading.Lock())
        with building:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            try:
                value = build()
                self._keep(key, value)
            finally:
                with self._lock:
                    self._building.pop(key, None)
        return value

    def _keep(self, key: Hashable, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self.budget and len(self._values) > 1:
                _, dropped = self._values.popitem(last=False)
                self._weight -= self._weigh(dropped)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values

    def __len__(self) -> int:
        return len(self._values)
