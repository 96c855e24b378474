"""How long a string a model takes, asked before anything is trained or captured."""

from torch import Generator

from models.errors import UsageError
from models.positions.unrotated import Learned
from models.training import Trainer
from models.transformer import CopyTransformer


def require_positions(model: CopyTransformer, length: int, what: str) -> None:
    """Raise UsageError where the model has fewer positions than a string of `length` source tokens takes.

    Args:
        model: says how many it has: n_ctx, and the size of a learned table.
        length: of the source string.
        what: needs it, for the message ("--length").
    """
    vocabulary = model.vocabulary
    around = vocabulary.a + vocabulary.b
    limit, name = model.cfg.n_ctx, "model.n_ctx"
    if isinstance(model.pos_embed, Learned) and model.pos_embed.W_pos.shape[0] < limit:
        limit, name = model.pos_embed.W_pos.shape[0], "max_positions"
    needed = around + 2 * length
    if needed > limit:
        longest = (limit - around) // 2
        fits = f"the longest that fits has {longest}" if longest > 0 else "no string fits"
        raise UsageError(
            f"{what}: a string of {length} source tokens takes {needed} positions, {name} is {limit}; {fits}"
        )


def require_samples(trainer: Trainer) -> None:
    """Raise UsageError where strings that training and its evaluations will ask for cannot be drawn or do not fit."""
    longest = trainer.recipe.task.lengths[1]
    for length, what in ((longest, "task.lengths"), (2 * longest, "evaluating during training at twice task.lengths")):
        require_positions(trainer.model, length, what)
        try:
            trainer.task.sample(1, Generator().manual_seed(0), lengths=length)
        except UsageError as error:
            raise UsageError(f"{what}: {error}") from None
