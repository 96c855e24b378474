"""What the Help page says in words: how a map is read, the vocabulary, commands, files, safety.

[C2D] is arXiv 2607.16072, [EXR] is arXiv 2608.11909; words without a source are the workbench's own.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A word, what it means here, and where it comes from."""

    name: str
    means: str
    source: str = ""


TASK = "A1 … Aa   s1 … sn   B1 … Bb   s1 … sn   EOS"

MAP = (
    "Rows are queries, the tokens that attend; columns are keys, the tokens that are attended to. Both run through the "
    "sequence, row 0 at the top. What is above the diagonal is the future and is left empty.",
    "The papers draw keys upwards: their horizontal stripes are vertical here. A vertical stripe is one key that many "
    "queries attend to; a diagonal is an offset that stays the same.",
    "The orange line is the true source of every query that copies; triangles at the right edge mark queries that are "
    "answered wrongly. Where there are more cells than pixels, a cell shows the largest weight of those it stands for, "
    "never the mean, so that a stripe of one token stays visible: drag to zoom in, double-click to see all.",
    "“sqrt” colours a weight by its square root, where .01 already takes a tenth of the range; “linear” by itself. "
    "The numbers are the same, and colour ranges are fixed, so that maps can be compared.",
)

# What the four pictures beside it show, by label.
SHAPES = {
    "locator": "Vertical stripes on the anchors: a locator. How the mass is split among them tells the index.",
    "look-back": "A diagonal at a fixed offset: look-back(1), the previous-token head.",
    "aligned": "A diagonal that starts with the copy: each query on its true source.",
    "induction": "Diagonals where the context repeats: induction goes by context, to every place that fits.",
}

TERMS = (
    Term(
        "exact match",
        "Every copied token and EOS are right. One teacher-forced pass decides it: greedy decoding copies exactly if "
        "and only if every argmax of that pass is right.",
        "[C2D] §3.4",
    ),
    Term(
        "true source",
        "The token that a query has to copy. The query that predicts copied token k, counted from 0, stands at "
        "a + n + b − 1 + k and its true source at a + k; that of EOS is B1, the line break.",
        "[C2D] §3.4, app. B",
    ),
    Term(
        "anchors",
        "The tokens that are the same in every string: prefix A1 … Aa and delimiter B1 … Bb.",
        "[C2D] §3.3",
    ),
    Term(
        "locator",
        "A head whose attention is on the anchors and tells by its split where a token stands: position-based copying.",
        "[C2D] §3.3, theorem 3.2",
    ),
    Term(
        "aligned",
        "A head that attends to the true source by position: it stays there when the context points elsewhere.",
        "[C2D] theorem 4.1",
    ),
    Term(
        "previous-token, look-back(k)",
        "A head that attends k tokens back, at every length; previous-token is k = 1.",
        "[C2D] §3.3; [EXR], Y^k heads",
    ),
    Term(
        "induction",
        "A head that attends to the token after an earlier occurrence of the same context: context-based copying.",
        "[C2D] §3.3",
    ),
    Term(
        "context, candidates",
        "The m tokens up to a query, its own included, and the keys that follow an earlier occurrence of them. m is "
        "the order.",
    ),
    Term(
        "competitor",
        "A wrong place of the source string that has the same last m tokens before it as the true source.",
        "[C2D] §3.3, app. C",
    ),
    Term(
        "survival",
        "(1 − p)^m: the probability that a block of m tokens is repeated unchanged when each is flipped with "
        "probability p. Exact match falls as it rises.",
        "[C2D] §3.2, figure 2, app. A.2",
    ),
    Term(
        "row, column",
        "2D encodings place a token by its line and its place in the line; what follows a line break starts a new row "
        "at column 0. B1 itself still stands on the old row.",
        "[C2D] §4, app. B",
    ),
    Term(
        "logit difference, margin of a row",
        "The logit of the right answer less that of the strongest other one: below 0 where the row fails.",
    ),
    Term(
        "margin of a label",
        "How far the nearest threshold of its rule is: 0 at the threshold, 1 at the best value there is.",
    ),
    Term(
        "certain",
        "Nothing inside the scores' 95 % intervals would change the label.",
    ),
    Term(
        "chance",
        "The score of a head that attends evenly to what it may; thresholds count from there.",
    ),
    Term(
        "confirmed",
        "The intervention that a label predicts changes the answers, and more than its control does.",
    ),
    Term(
        "ablation, knockout",
        "What a head writes is replaced (by zeros, by its mean, by that of other strings), or its attention to some "
        "keys is taken away.",
    ),
    Term(
        "teacher-forced, free-running",
        "Every token is predicted from the right ones before it, or from the model's own.",
    ),
    Term(
        "cause of a failure",
        "Repetition, length or stopping, each only where its counterfactual mends the copy and its control does not; "
        "otherwise none of these.",
    ),
)

COMPARE = (
    "Compare, or the key c, puts a second subject beside the one that is shown: another head, string, run, or the same "
    "run at another checkpoint. The lists of the panel say what the second has instead; what they leave open is as in "
    "the first, so both follow when you walk on. Swap exchanges them, c or Close leaves the second.",
    "Differences are the first minus the second, with zero in the middle of the colours; both are drawn on one scale. "
    "The comparison is part of the address and goes along from page to page:",
)

# Page, and what it shows of two subjects.
COMPARED = (
    ("Runs", "the curves of all ticked runs in one figure"),
    ("Attention", "both maps and their difference with zoom and cursor in common, both weights of the pinned row"),
    ("Heads", "labels and scores of both reports, three grids of a score, the evidence for two heads"),
    ("Failures", "causes, exact match by distribution and length, and the same failed string under both; two failures"),
    ("Coordinates", "where both place the same tokens"),
    ("Playground", "both copies token by token, the probability of every right token, the row of both"),
    ("Intervene", "the same intervention on both, or two heads, with the difference of what it does"),
)

# Verb with options, and what it is for.
COMMANDS = (
    ("recipes", "what can be trained"),
    ("train rope2d-1l --set model.d_model=64", "train, evaluate, keep; Ctrl-C stops, --resume goes on: Runs"),
    ("evaluate latest --lengths 100,1000", "exact match by length: the second chart of Runs"),
    ("capture latest --length 60 --failed", "the exact attention of some strings: Attention, Coordinates"),
    ("heads latest", "scores, labels and interventions of every head: Heads"),
    ("heads latest --checkpoints", "the same at every checkpoint: how heads form, on Heads and Runs"),
    ("failures latest", "the cause of every failed copy: Failures"),
    ("export-view --help", "the map of Attention as PNG, SVG, CSV or NPZ, at any size"),
    ("runs", "the runs of the store; show and rm take one"),
)

LINKS = (
    "The address holds all that is selected: run, capture, string, head, row, zoom, colours and the choices of each "
    "page; what has its default is left out. “Copy link” copies it, back and forward walk through it, and another "
    "browser on this machine shows the same view.",
    "The tabs above keep the selection from page to page. What an address names and is not there is said, and "
    "replaced by what comes first.",
)

# What a run's folder holds, each written whole or not at all.
FILES = (
    ("config.toml", "the recipe as it was run: all that is needed to build the model again"),
    ("run.json", "state, seed, device, versions"),
    ("metrics.jsonl", "loss and exact match, a line a report"),
    ("weights.safetensors, checkpoints/", "the final weights, and those on the way"),
    ("evaluation.json", "exact match and token accuracy by length and distribution"),
    ("captures/", "rotated queries and keys of some strings, from which any part of their attention is exact"),
    ("reports/", "what was found about heads and failures"),
)

SAFETY = (
    "The dashboard answers only to this machine, on 127.0.0.1, and asks nothing of any other; pages of other sites "
    "cannot drive it.",
    "Nothing from a run's folder is executed: there is no pickle, and tokens are shown as text. Whoever can reach the "
    "port on this machine can start and stop trainings.",
    "Trainings and measurements are processes of their own and go on when the dashboard is closed.",
)
