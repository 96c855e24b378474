"""Edited strings change the one thing that is tested and keep the rest."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analyses.counterfactual import (
    WINDOW,
    Rivals,
    break_repeats,
    exchange_rest,
    flip_elsewhere,
    kept_when_shortened,
    shorten,
    with_other_answer,
)
from analyses.questions import Question
from analyses.repetition import context_lengths

Case = tuple[Question, Rivals, int, np.random.Generator]


@st.composite
def cases(draw: st.DrawFn, longest: int = 50) -> Case:
    """A question and some of its competitors, attended to by chance."""
    alphabet, n = draw(st.sampled_from([2, 3, 16])), draw(st.integers(2, longest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    string = rng.integers(alphabet, size=n)
    if draw(st.booleans()):
        string = string[np.arange(n) % draw(st.integers(1, 9))]
    question = Question(string, draw(st.integers(0, n)))
    match = context_lengths(string, question.index)
    competes = match > 0
    competes[question.index] = False
    assume(competes.any())
    strong = competes & (rng.random(n + 1) < draw(st.sampled_from([0.1, 0.5, 1.0])))
    assume(strong.any())
    mass = np.where(strong, rng.uniform(0.1, 1, n + 1), 0.01)
    order = min(4, int(np.median(match[strong])))
    return question, Rivals(strong, match, mass / mass.sum(), order), alphabet, rng


def kept_answer(before: Question, after: Question) -> bool:
    return before.asks_eos or after.string[after.index] == before.string[before.index]


@settings(deadline=None, max_examples=100)
@given(cases(), st.booleans())
def test_broken_competitors_have_lost_their_context(case: Case, all_alike: bool) -> None:
    question, rivals, alphabet, rng = case
    broken = break_repeats(question, rivals, alphabet, rng, all_alike=all_alike)
    assert broken.index == question.index and broken.length == question.length and kept_answer(question, broken)
    assert broken.string.min() >= 0 and broken.string.max() < alphabet
    match = context_lengths(broken.string, broken.index)
    left = rivals.strong & (match >= np.minimum(rivals.match, rivals.order))
    crowded = alphabet == 2 and (question.length <= 24 or rivals.strong.mean() > 0.4)
    assert left.sum() <= (3 if crowded else 0)  # two tokens leave little room without repeats
    if all_alike and alphabet > 2 and rivals.order > 1:
        match[question.index] = 0
        assert match.max() < rivals.order


@settings(deadline=None, max_examples=100)
@given(cases())
def test_what_the_row_attended_to_is_changed_only_where_nothing_else_breaks_it(case: Case) -> None:
    question, rivals, alphabet, rng = case
    broken = break_repeats(question, rivals, alphabet, rng, all_alike=False)
    changed = np.flatnonzero(broken.string != question.string)
    lonely = np.flatnonzero(rivals.strong)
    if len(lonely) == 1 and lonely[0] > question.index + WINDOW:  # one competitor, far from the asked token
        assert changed.tolist() == [lonely[0] - 1]


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(1, 20))
def test_flips_elsewhere_spare_the_competitors(case: Case, flips: int) -> None:
    question, rivals, alphabet, rng = case
    edited, outside = flip_elsewhere(question, rivals, flips, alphabet, rng)
    changed = edited.string != question.string
    assert changed.sum() == min(flips, question.length - (not question.asks_eos)) and kept_answer(question, edited)
    near = np.zeros(question.length, bool)
    for i in np.flatnonzero(rivals.strong):
        near[i - min(rivals.match[i], WINDOW) : i] = True
    assert outside == pytest.approx((~near[changed]).mean())
    k = question.index
    spared = (
        near | rivals.attended[:-1] | ((np.arange(question.length) >= k - WINDOW) & (np.arange(question.length) < k))
    )
    if flips <= (~spared).sum() - (not question.asks_eos and not spared[min(k, question.length - 1)]):
        match = context_lengths(edited.string, k)
        assert outside == 1 and (np.minimum(match, WINDOW) >= np.minimum(rivals.match, WINDOW))[rivals.strong].all()


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(1, 60))
def test_shortened_strings_keep_the_asked_token_its_context_and_competitors(case: Case, longest: int) -> None:
    question, rivals, _, rng = case
    assume(longest < question.length)
    kept = kept_when_shortened(question, rivals, longest, rng)
    short, window = shorten(question, kept), min(WINDOW, longest // 4)
    assert longest // 2 <= short.length <= longest and kept_answer(question, short)
    assert short.asks_eos == question.asks_eos
    own, k = question.string[max(0, question.index - window) : question.index], short.index
    assert short.string[k - len(own) : k].tolist() == own.tolist()
    if longest > 2 * (WINDOW + 1):
        assert context_lengths(short.string, k)[np.arange(short.length + 1) != k].max(initial=0) > 0
    same = exchange_rest(question, kept, rng)
    assert same.index == question.index and (same.string == question.string)[kept].all()
    assert set(same.string.tolist()) <= set(question.string.tolist())


@settings(deadline=None, max_examples=50)
@given(cases())
def test_another_answer_is_another_token_in_the_same_place(case: Case) -> None:
    question, _, alphabet, rng = case
    if question.asks_eos:
        return
    other = with_other_answer(question, alphabet, rng)
    assert np.flatnonzero(other.string != question.string).tolist() == [question.index]
    assert 0 <= other.string[other.index] < alphabet
