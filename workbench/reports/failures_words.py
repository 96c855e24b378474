"""A failures report in sentences: what fails, why, on which evidence, and what to do where nothing does."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.content.base import EstimateContent
from workbench.content.failures import AftermathContent, CauseContent, FailureContent, GroupContent

if TYPE_CHECKING:  # the dashboard says these sentences without torch
    from analyses.attribution import Explanation
    from analyses.law import Law
    from analyses.regression import Prediction
    from analyses.trials import Trial

# Of each cause: what it says, its counterfactual, what that should do, and the control.
TRIED = {
    "repetition": (
        "other places with the same context, competitors, drew the attention",
        "flip tokens until no attended competitor shares the context",
        "the copy is right again and attention has left the competitors",
        "as many flips elsewhere",
    ),
    "length": (
        "the string is longer than training, and that alone is too much",
        "cut the string into the trained range, competitors kept",
        "the copy is right again",
        "exchange those tokens at the same length",
    ),
    "stop": (
        "EOS comes early, or not in time, whatever the string",
        "answer fresh strings of trained length",
        "EOS is wrong there too",
        "other tokens of these strings that are wrong",
    ),
}


def finding_of(groups: Sequence[GroupContent], causes: Mapping[str, CauseContent], trained: int) -> str:
    """What fails and why, in one sentence."""
    inside = [group for group in groups if group.length <= trained]
    beyond = [group for group in groups if group.length > trained]
    near, far = (sum(g.strings for g in chosen) for chosen in (inside, beyond))
    bad_near, bad_far = (sum(g.failed for g in chosen) for chosen in (inside, beyond))
    longest = max((group.length for group in inside), default=trained)
    short = f"strings of up to {longest:,} tokens"
    if not bad_near + bad_far:
        counts = [f"{near:,} {short}"] if near else []
        counts += [f"{far:,} {'longer ones' if near else f'strings longer than {trained:,} tokens'}"] if far else []
        return f"no copy fails, of {' and '.join(counts)}"
    parts = [f"{bad_near:,} of {near:,} {short} fail"] if near else []
    if far:
        parts.append(
            f"{bad_far:,} of {far:,} " + ("longer ones" if near else f"strings longer than {trained:,} tokens fail")
        )
    ranked = sorted((name for name in causes if causes[name].failures), key=lambda name: -causes[name].failures)
    why = ", ".join(cause_text(name, causes[name]) for name in ranked)
    return f"{' and '.join(parts)}: {why}" if why else " and ".join(parts)


def cause_text(name: str, cause: CauseContent) -> str:
    """A cause with its count, and how many of them are unconfirmed."""
    if name == "other":
        return f"{cause.failures:,} by none of the causes tried"
    left = f" ({cause.unconfirmed:,} unconfirmed)" if cause.unconfirmed else ""
    return f"{cause.failures:,} by {name}{left}"


def advice_of(groups: Sequence[GroupContent], trained: int, was_trained: bool) -> str:
    """What to do where nothing fails, or nothing is copied; empty otherwise."""
    inside = [group for group in groups if group.length <= trained]
    if was_trained and inside and all(group.failed == group.strings for group in inside):
        return (
            f"None of the {sum(group.strings for group in inside):,} strings of trained length is copied: a model that "
            "cannot copy yet is right now and then by luck, and edits that seem to mend it say little. To ask why "
            "copies fail, take a later checkpoint, or give shorter strings with --lengths."
        )
    if any(group.failed for group in groups):
        return ""
    longest = max(group.length for group in groups)
    longer = max(2 * longest, 2 * trained)
    earlier = ", or an earlier checkpoint with --checkpoint STEP" if was_trained else ""
    return (
        f"Every copy of up to {longest:,} tokens is exact, so there is nothing to explain. Ask for longer strings, "
        f"--lengths {longer},{2 * longer}, or more of them with --strings{earlier}."
    )


def evidence_sentence(explanation: "Explanation") -> str:
    """The evidence for a failure's cause, in words."""
    if explanation.cause == "other":
        if not explanation.trials:
            return "nothing to try: no competitor attended to, and no longer than training"
        return "refuted: " + "; ".join(trial_text(trial) for trial in explanation.trials)
    trial = explanation.trial(explanation.cause)
    words = "" if trial is None else trial_text(trial)
    if explanation.cause == "length" and explanation.out_of_range:
        words += "; coordinates that training never showed"
    return words


def trial_text(trial: "Trial") -> str:
    """A counterfactual with its control, in words."""
    share, control = f"{trial.share:.0%}", f"{trial.control:.0%}"
    if trial.cause == "repetition":
        left = ""
        if trial.left is not None and trial.verdict == "refuted" and trial.share - trial.left > trial.control:
            left = f", but attention stayed where it was (left in {trial.left:.0%}), so no context had drawn it there"
        elif trial.left is not None:
            left = f" (attention left them in {trial.left:.0%})"
        return (
            f"competitors' contexts broken, {trial.changed:.1f} flips: right again in {share}{left}; "
            f"as many flips elsewhere: {control}"
        )
    if trial.cause == "length":
        return (
            f"cut by {_tokens(round(trial.changed))}, competitors kept: right again in {share}; "
            f"the same tokens exchanged: {control}"
        )
    return f"on fresh strings EOS is wrong again in {share}; other tokens: {control}"


def aftermath_text(after: AftermathContent, failure: FailureContent) -> str:
    """What the model goes on with, in words; numbers are tokens."""
    if after.stops_at == failure.first_error:
        return f"stops {failure.length - failure.first_error:,} early"
    stop = ""
    if after.stops_at is not None and after.stops_at != failure.length:
        late = "late" if after.stops_at > failure.length else "early"
        stop = f", stops {abs(after.stops_at - failure.length):,} {late}"
    if after.recovers_at is not None:
        return f"right again after {after.recovers_at - failure.first_error:,}{stop}"
    if after.slip:
        return f"goes on {abs(after.slip):,} {'ahead' if after.slip > 0 else 'back'}{stop}"
    return f"is lost{stop}"


def law_sentence(law: "Law") -> str:
    """Does the law hold, and may one ask."""
    at = f"At {law.handled.length} tokens"
    if not law.handled.enough:
        at = (
            f"At {law.handled.length} tokens, which the model does not handle ({law.handled.exact_match:.0%} of "
            f"{law.handled.control} strings are copied)"
        )
    exact = {point.exact_match for point in law.points}
    if exact == {1.0}:
        said = "every string is copied, whatever its survival, so exact match cannot tell"
    elif exact == {0.0}:
        said = "no string is copied, whatever its survival, so exact match cannot tell"
    elif law.holds:
        said = f"exact match falls as blocks survive: {_slope(law.slope.value)} from survival 0 to 1"
    elif law.slope.interval is not None and law.slope.interval[0] > 0:
        said = f"exact match rises as blocks survive, against the law: {_slope(law.slope.value)} from survival 0 to 1"
    else:
        said = "exact match does not depend on survival beyond doubt"
    low, high = law.margin_slope.interval or (0.0, 0.0)
    moved = "fall" if high < 0 else "rise" if low > 0 else "do not move beyond doubt"
    return f"{at}, {said}. Margins {moved} ({law.margin_slope.value:+.2g} [{low:+.2g}, {high:+.2g}] logits)."


def prediction_sentence(prediction: "Prediction") -> str:
    """Does repetition predict failure at fixed length, and what margins say."""
    auc, slope = prediction.auc, prediction.margin_slope
    if auc.value is None or auc.interval is None:
        said = f"Whether repetition predicts failure at fixed length cannot be told: {auc.reason}"
    else:
        low, high = auc.interval
        words = {
            "yes": "Repetition predicts failure at fixed length",
            "no": "Repetition does not predict failure at fixed length",
            "reversed": "At fixed length it is the less repetitive strings that fail",
        }[prediction.answer]
        said = f"{words}: a failed string is the more repetitive of a pair with probability {auc.value:.2f} " + (
            f"[{low:.2f}, {high:.2f}], 0.5 by chance"
        )
    if slope.value is None or slope.interval is None:
        return said + "."
    low, high = slope.interval
    return (
        f"{said}. One standard deviation of repetition more changes the margin of strings of one length by "
        f"{slope.value:+.2f} [{low:+.2f}, {high:+.2f}] logits."
    )


def value_text(estimate: EstimateContent, digits: int = 2, sign: bool = False) -> str:
    """Value and interval, or why there is none."""
    if estimate.value is None or estimate.interval is None:
        return f"not measurable ({estimate.reason})" if estimate.reason else "not measurable"
    plus = "+" if sign else ""
    low, high = estimate.interval
    return f"{estimate.value:{plus}.{digits}f} [{low:{plus}.{digits}f}, {high:{plus}.{digits}f}]"


def _slope(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _tokens(n: int) -> str:
    return f"{n:,} token{'' if n == 1 else 's'}"
