"""Spaces of scores for the Heads page, made in the background: scikit-learn takes seconds to be imported."""

import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from models.errors import WorkbenchError
from workbench.content.heads import HeadsContent
from workbench.dashboard.caching import Cache
from workbench.dashboard.gate import Gate

if TYPE_CHECKING:
    from analyses.space import ScoreSpace

_PATIENCE = 0.15  # seconds that a request waits for a space before it says that it is being made


class Preparing(WorkbenchError):
    """A space is being made."""


class Spaces:
    """Spaces of all heads of some reports, each made once; nothing is imported before the first is asked for."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        # With the reports that a space is of: their identities are its key, and must not be given to others.
        self._made: Cache[tuple[tuple[HeadsContent, ...], Future[ScoreSpace]]] = Cache(16)

    def of(self, contents: Sequence[HeadsContent]) -> "ScoreSpace":
        """Return the space of the heads of some reports, or start making it.

        Raises:
            Preparing: it is not ready yet.
        """
        _, made = self._made.get(self._key(contents), lambda: (tuple(contents), self._start(tuple(contents))))
        try:
            return made.result(_PATIENCE)
        except TimeoutError:
            raise Preparing("the heads are being placed by their scores; the first time takes some seconds") from None

    def ready(self, contents: Sequence[HeadsContent]) -> bool:
        """Whether the space of some reports is there; starts nothing."""
        key = self._key(contents)
        return key in self._made and self._made.get(key, lambda: ((), Future()))[1].done()

    def _key(self, contents: Sequence[HeadsContent]) -> Hashable:
        return tuple(map(id, contents))

    def _start(self, contents: tuple[HeadsContent, ...]) -> "Future[ScoreSpace]":
        made: Future[ScoreSpace] = Future()
        threading.Thread(target=self._make, args=(contents, made), daemon=True).start()
        return made

    def _make(self, contents: tuple[HeadsContent, ...], made: "Future[ScoreSpace]") -> None:
        try:
            self._gate.bring_pandas()
            from analyses.space import score_space
            from workbench.reports.comparison import points

            made.set_result(score_space([point for content in contents for point in points(content)]))
        except BaseException as error:
            made.set_exception(error)
