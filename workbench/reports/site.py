"""The pages of one run as a folder of offline HTML files, for somebody who has nothing installed.

    index.html                  what it is, how it trained, how far it copies, its settings
    string-CAPTURE-INDEX.html   one captured string: the copy, every head's attention, its coordinates
    heads.html, heads-history.html, failures.html   reports that the run keeps, each the newest
    plotly.min.js               read by all of them

No page loads anything from outside the folder, and none needs a server.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from plotly.offline import get_plotlyjs

from workbench.content.base import About
from workbench.dashboard.data import Data
from workbench.dashboard.selection import failed_first
from workbench.figures.curves import length_generalisation, training_curves
from workbench.figures.style import scheme_style
from workbench.files import new_folder, write_text
from workbench.reports import failures_html, heads_html, history_html, keep
from workbench.reports.heads import Examined
from workbench.reports.html import Document, Link
from workbench.reports.string_html import copy_of, pattern_codes, string_page
from workbench.runs import Run, Store

PLOTLY = "plotly.min.js"
INDEX = "index.html"
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Site:
    """What was written.

    Attributes:
        folder: that holds it.
        pages: names of its HTML files, the first page first.
        nbytes: of all files.
        missing: what the run does not have, each with the command that makes it.
    """

    folder: Path
    pages: tuple[str, ...]
    nbytes: int
    missing: tuple[str, ...]


def write_site(store: Store, run: Run, folder: Path, *, strings: int, progress: Progress | None = None) -> Site:
    """Write the pages of `run` into `folder`, which is made; all of it, or nothing.

    Args:
        store: that holds the run.
        run: a readable one.
        folder: must not exist, or be empty.
        strings: pages for at most this many strings of each capture, failed ones first.
        progress: called with the share that is done and what is being written.

    Raises:
        UsageError: the folder holds something.
        WorkbenchError: a file of the run is damaged, or the disk is full.
    """
    told = progress or (lambda share, what: None)
    data = Data(store)
    try:
        with new_folder(folder) as made:
            pages = _Pages(data, run, strings)
            documents = pages.documents()
            for at, (name, title, make) in enumerate(documents):
                told(at / len(documents), title)
                others = [(other, said) for other, said, _ in documents]
                write_text(made / name, make().render(script=PLOTLY, pages=others, current=name))
            write_text(made / PLOTLY, get_plotlyjs())
            told(1.0, "done")
            nbytes = sum(file.stat().st_size for file in made.iterdir())
    finally:
        data.close()
    return Site(folder, tuple(name for name, _, _ in documents), nbytes, tuple(pages.missing))


class _Pages:
    """What there is to write of one run."""

    def __init__(self, data: Data, run: Run, strings: int) -> None:
        self.data, self.run, self.strings = data, run, strings
        self.captures = [(name, data.capture(run.id, name)) for name in run.captures]
        self.missing: list[str] = []

    def documents(self) -> list[tuple[str, str, Callable[[], Document]]]:
        """Name, title and maker of every page, the first page first."""
        listed = [*self._reports(), *self._strings()]
        titles = [(name, title) for name, title, _ in listed]
        return [(INDEX, "Run", lambda: self._index(titles)), *listed]

    def _reports(self) -> Iterator[tuple[str, str, Callable[[], Document]]]:
        run, option = self.run, self.data.store.option
        steps = keep.kept_steps(run)
        if steps:
            heads = keep.kept_heads(run, steps[-1])
            yield "heads.html", "Heads", lambda: heads_html.document(Examined(heads, {}, *self._pictures(heads.step)))
        else:
            self.missing.append(f"no report on its heads; make one with: workbench heads {run.id}{option}")
        history = keep.kept_history(run)
        if history is not None:
            yield "heads-history.html", "Heads over training", lambda: history_html.document(history)
        steps = keep.kept_failures_steps(run)
        if steps:
            failures = keep.kept_failures(run, steps[-1])
            yield "failures.html", "Failures", lambda: failures_html.document(failures)
        else:
            self.missing.append(f"no report on its failures; make one with: workbench failures {run.id}{option}")

    def _strings(self) -> Iterator[tuple[str, str, Callable[[], Document]]]:
        if not self.captures:
            self.missing.append(
                f"no captures, so no attention; make one with: workbench capture {self.run.id}{self.data.store.option}"
            )
        for name, capture in self.captures:
            for index in failed_first(capture)[: self.strings]:
                make = partial(string_page, self.run.id, name, capture, index)
                yield f"string-{name}-{index}.html", f"{name} #{index}", make

    def _pictures(self, step: int) -> tuple[dict[tuple[int, int], dict[str, np.ndarray]], int]:
        """Small maps of all heads on a captured string of the weights at `step`, for the table of heads."""
        for _, capture in self.captures:
            if capture.about.get("step") == step and len(capture):
                string = capture.string(failed_first(capture)[0])
                heads = [(layer, head) for layer, count in enumerate(capture.heads) for head in range(count)]
                return {at: {"plain": pattern_codes(string, *at)} for at in heads}, string.length
        return {}, 0

    def _index(self, pages: list[tuple[str, str]]) -> Document:
        run, row = self.run, self.data.run(self.run.id)
        match = "not evaluated" if run.exact_match is None else f"{run.exact_match:.2f} exact match within training"
        scheme = scheme_style(row.scheme).label if row.scheme else "unknown scheme"
        page = Document(
            f"Run {run.id}", f"{scheme}, {run.step:,} of {run.steps:,} steps ({run.status.value}): {match}."
        )
        page.section("What it is", str(run.config.get("description", "")))
        trained = "unknown" if run.train_lengths is None else "{:,} to {:,} tokens".format(*run.train_lengths)
        page.table(
            ["what", "value"],
            [
                ["recipe", run.recipe],
                ["positional scheme", scheme],
                ["heads of each layer", ", ".join(map(str, row.heads))],
                ["trained on strings of", trained],
            ],
        )
        page.section("Training")
        curve = self.data.training_curve(row)
        if len(curve.steps):
            page.figure(
                training_curves([curve], title="Loss and exact match over optimiser steps"),
                f"Loss ends at {curve.losses[-1]:.3g}; exact match is the mean over lengths of the training range.",
            )
        page.section("How far it copies")
        lengths = self.data.length_curves(row)
        if lengths:
            page.figure(
                length_generalisation(
                    lengths,
                    [] if run.train_lengths is None else [run.train_lengths],
                    [curve.distribution for curve in lengths],
                    title="Exact match by length",
                ),
                f"Share of strings copied without an error, with 95 % intervals; trained on {trained}.",
            )
            page.table(
                ["distribution", ">length up to", ">exact match", ">strings"],
                [
                    [curve.distribution, f"{length:,}", f"{match:.2f}", int(count)]
                    for curve in lengths
                    for length, match, count in zip(curve.lengths, curve.exact_match, curve.strings, strict=True)
                ],
            )
        else:
            page.paragraphs("It was not evaluated.")
        page.section("Strings" if self.captures else "Pages")
        page.table(
            ["page", "what it shows"],
            [[Link(title, name), self._says(name)] for name, title in pages],
        )
        for missing in self.missing:
            page.paragraphs(f"{missing[:1].upper()}{missing[1:]}")
        page.section("Settings")
        page.preformatted(run.config_text)
        created = run.created.isoformat() if run.created else "unknown"
        page.about(About(created=created, versions=dict(run.versions), seed=run.seed or 0, device=run.device))
        return page

    def _says(self, page: str) -> str:
        for name, capture in self.captures:
            if page.startswith(f"string-{name}-"):
                return copy_of(capture, int(page.removeprefix(f"string-{name}-").removesuffix(".html")))
        return {
            "heads.html": "what each head is, and on which evidence",
            "heads-history.html": "when each head formed",
            "failures.html": "why copies fail, string by string",
        }.get(page, "")
