"""What a recipe file says, as settings: task, model, training and evaluation.

A recipe (`models/recipes/*.toml`) is one `Recipe`, and so is a run's `config.toml`: everything needed to rebuild
and retrain a model. Where it runs and where it is stored is not part of it.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from models.distributions import DISTRIBUTIONS
from models.errors import UsageError
from models.positions import ALTERNATIONS, SchemeSettings, parse_scheme
from models.settings import Settings

Probability = Annotated[float, Field(ge=0, le=1)]
Length = Annotated[int, Field(ge=1, le=10_000_000)]
LengthRange = tuple[Length, Length]
Weight = Annotated[float, Field(gt=0, le=1000)]


def _known_distribution(name: str) -> str:
    DISTRIBUTIONS[name]
    return name


def _ordered(lengths: LengthRange) -> LengthRange:
    if lengths[0] > lengths[1]:
        raise UsageError("a length range is [shortest, longest]")
    return lengths


class TaskSettings(Settings):
    """The copy task ([C2D] section 3.4): `A1..Aa s B1..Bb s EOS`.

    Attributes:
        a, b: tokens in the prefix and in the delimiter; (2, 4) as in the released code.
        separator: what B1 is: a line break, or `*`, which starts no new row.
        alphabet: number of different source tokens.
        lengths: shortest and longest source string.
        distribution: a name registered in `models.distributions`.
        probabilities: for imbalanced, the values that P(token 0) is drawn from.
        period, flip: for repeat-structure, tokens in the repeated block and P(a token is flipped).
        context: for unique-context, m: no window of m tokens occurs twice.
    """

    a: int = Field(2, ge=1, le=1000)
    b: int = Field(4, ge=1, le=1000)
    separator: Literal["\n", "*"] = "\n"
    alphabet: int = Field(2, ge=2, le=100_000)
    lengths: LengthRange = (1, 100)
    distribution: str = "imbalanced"
    probabilities: tuple[Probability, ...] = Field((0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95), min_length=1)
    period: int = Field(8, ge=1, le=10_000)
    flip: Probability = 0.1
    context: int = Field(10, ge=1, le=64)

    _check_lengths = field_validator("lengths")(_ordered)
    _check_distribution = field_validator("distribution")(_known_distribution)


class ModelSettings(Settings):
    """One decoder ([C2D] appendix B). A layer's scheme is `positions[layer % len(positions)]`.

    Attributes:
        heads: attention heads of each layer; its length is the number of layers.
        d_model, d_head: width of the residual stream and of a head.
        d_mlp: width of the MLP; 0 leaves it out (attention-only), unset is 4 * d_model.
        gated_mlp, act_fn: MLP(x) = W_out(act(W_gate x) * W_in x), or W_out act(W_in x) without the gate.
        normalization: RMS or LN (without bias), or none.
        norm_placement: `pre` normalises what a sublayer reads, `post` what it adds to the residual stream.
        final_norm: normalise before the unembedding.
        residual: sublayers add to the residual stream; without it each replaces what it read ([C2D] theorem 3.1).
        eps: added to the mean square (or variance) under the root.
        tied: unembed with the transposed embedding.
        strict_mask: a token does not attend to itself ([EXR] section 5); the first token then attends to nothing.
        positions: schemes, one for all layers, one a layer, or an alternation; a name or a table {scheme, ...}.
        n_ctx: longest sequence that is accepted; nothing of this size is ever allocated. Float32 counts
            exactly up to 2^24.
        init_std: std of the normal initialisation; matrices that write to the residual stream divide by sqrt(2 L).
        embed_std: std of the embedding's initialisation; unset is init_std.
    """

    heads: tuple[Annotated[int, Field(ge=1, le=256)], ...] = Field((2,), min_length=1, max_length=256)
    d_model: int = Field(128, ge=1, le=65_536)
    d_head: int = Field(64, ge=1, le=8192)
    d_mlp: int | None = Field(None, ge=0, le=1_000_000)
    gated_mlp: bool = False
    act_fn: Literal["gelu", "relu", "silu"] = "gelu"
    normalization: Literal["RMS", "LN", "none"] = "RMS"
    norm_placement: Literal["pre", "post"] = "pre"
    final_norm: bool = True
    residual: bool = True
    eps: float = Field(1e-6, ge=0, le=1)
    tied: bool = True
    strict_mask: bool = False
    positions: tuple[Annotated[SerializeAsAny[SchemeSettings], BeforeValidator(parse_scheme)], ...] = Field(
        (parse_scheme("rope2d"),), min_length=1
    )
    n_ctx: int = Field(4_000_000, ge=2, le=2**24)
    init_std: float = Field(0.02, gt=0, le=10)
    embed_std: float | None = Field(None, gt=0, le=10)

    @field_validator("positions", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Accept one scheme for `[scheme]`, and an alternation's name for its schemes."""
        listed = [value] if isinstance(value, str | dict | SchemeSettings) else value
        if isinstance(listed, list | tuple):
            schemes = [ALTERNATIONS.get(item, (item,)) if isinstance(item, str) else (item,) for item in listed]
            return tuple(scheme for alternation in schemes for scheme in alternation)
        return value

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return len(self.heads)

    @property
    def mlp_width(self) -> int:
        """Width of the MLP, 0 for an attention-only model."""
        return 4 * self.d_model if self.d_mlp is None else self.d_mlp

    def scheme_of(self, layer: int) -> SchemeSettings:
        """Return the positional scheme of `layer`."""
        return self.positions[layer % len(self.positions)]

    @property
    def scheme_name(self) -> str:
        """Short name of the positional schemes: "rope2d", or "rope+nope" for an alternation."""
        names = [scheme.scheme for scheme in self.positions[: self.n_layers]]
        return names[0] if len(set(names)) == 1 else "+".join(names)

    @model_validator(mode="after")
    def _shapes(self) -> "ModelSettings":
        if len(self.positions) > self.n_layers:
            raise UsageError(
                f"{len(self.positions)} positional schemes for {self.n_layers} layers; name at most one a layer"
            )
        for layer in range(self.n_layers):
            self.scheme_of(layer).check(self.d_head, self.d_model)
        return self


class TrainSettings(Settings):
    """Optimisation ([C2D] appendix B): AdamW, warm-up, then cosine or warm-up-stable-decay, clipping.

    Attributes:
        steps: optimiser steps.
        batch_size: strings in one forward-backward batch.
        accumulation: batches added up before an optimiser step.
        micro_batch: strings computed at once, on average: parts of the batch hold strings of similar lengths and about
            equally many tokens; unset lets the device decide.
        learning_rate, final_learning_rate: peak and last value.
        schedule, decay_fraction: cosine, or wsd: constant, then linear over the last fraction of the steps.
        warmup: steps of linear warm-up.
        betas, epsilon, weight_decay: of AdamW; decay applies to matrices only. A large epsilon lets weights rest once
            the gradient has vanished, where Adam would go on in steps of full size.
        clip: largest gradient norm.
        edge_weights: weights in the loss of each string's first copied token and of EOS; the tokens between weigh 1.
            The one's query and the other's source are tokens that a string has only once, so they are learned last
            and are the first to fail beyond the training length.
        precision: bfloat16 runs matrix products under autocast; angles, coordinates and softmax stay float32.
        compile: use torch.compile.
        checkpoint_every, evaluate_every: in steps; 0 leaves only the end.
        keep_checkpoints: keep the weights of every checkpoint, not only the last (for half-trained models).
        evaluation_strings: strings a length in the evaluations during training.
    """

    steps: int = Field(500, ge=1, le=100_000_000)
    batch_size: int = Field(64, ge=1, le=1_000_000)
    accumulation: int = Field(1, ge=1, le=10_000)
    micro_batch: int | None = Field(None, ge=1)
    learning_rate: float = Field(2e-3, gt=0, le=10)
    final_learning_rate: float = Field(0.0, ge=0, le=10)
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    decay_fraction: float = Field(0.1, ge=0, le=1)
    warmup: int = Field(100, ge=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    epsilon: float = Field(1e-8, gt=0, le=1)
    weight_decay: float = Field(0.01, ge=0, le=10)
    clip: float = Field(1.0, gt=0)
    edge_weights: tuple[Weight, Weight] = (1.0, 1.0)
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    checkpoint_every: int = Field(100, ge=0)
    evaluate_every: int = Field(50, ge=0)
    keep_checkpoints: bool = True
    evaluation_strings: int = Field(20, ge=1, le=100_000)


class EvaluationSettings(Settings):
    """How a finished run is evaluated: `strings` strings for every length range and distribution.

    Attributes:
        intervals: inclusive ranges of string lengths; [200, 200] is one length.
        distributions: registered names.
        strings: strings an interval.
    """

    intervals: tuple[LengthRange, ...] = ((1, 25), (26, 50), (51, 100), (101, 200), (201, 400))
    distributions: tuple[str, ...] = Field(("uniform", "imbalanced", "recursive-flip"), min_length=1)
    strings: int = Field(10, ge=1, le=1_000_000)

    @field_validator("intervals")
    @classmethod
    def _check_intervals(cls, intervals: tuple[LengthRange, ...]) -> tuple[LengthRange, ...]:
        return tuple(_ordered(interval) for interval in intervals)

    @field_validator("distributions")
    @classmethod
    def _check_distributions(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_known_distribution(name) for name in names)


class Mark(Settings):
    """A result the recipe claims: exact match at one length, mean over seeds (`workbench reproduce`).

    Attributes:
        length: source string length.
        distributions: registered names; the claim holds for each.
        strings: strings a seed and distribution.
        at_least, at_most: bounds of the mean; without them the result is reported, not claimed.
    """

    length: Length
    distributions: tuple[str, ...] = Field(("imbalanced",), min_length=1)
    strings: int = Field(50, ge=1, le=1_000_000)
    at_least: Probability = 0.0
    at_most: Probability = 1.0

    @field_validator("distributions")
    @classmethod
    def _check_distributions(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_known_distribution(name) for name in names)


class Recipe(Settings):
    """A named experiment: everything that decides the weights.

    Attributes:
        name: file name without ending.
        description: one line, shown by `workbench recipes`.
        device_hint: where it is meant to run: "cpu" or "gpu".
        minutes: measured training time on that device (2 cores for cpu), if measured.
        seed: decides initialisation and data.
    """

    name: str = Field("custom", pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    description: str = ""
    device_hint: Literal["cpu", "gpu"] = "cpu"
    minutes: float | None = Field(None, ge=0)
    seed: int = Field(0, ge=0, lt=2**32)
    task: TaskSettings = TaskSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    marks: tuple[Mark, ...] = ()
