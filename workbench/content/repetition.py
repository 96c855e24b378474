"""The content of a report on the repetition of strings."""

from pydantic import Field

from workbench.content.base import SCHEMAS, Content


class StringRepetition(Content):
    """Repetition of one string; contexts are the m tokens before a position, 1 <= m <= 16."""

    name: str = Field(description="the file, or the beginning of the text")
    length: int = Field(description="tokens: characters of the text")
    alphabet: int = Field(description="different tokens there are")
    repeated_share: dict[str, float] = Field(
        description="by m, share of the length + 1 positions whose m-token context is not unique"
    )
    mean_competitors: dict[str, float] = Field(
        description="by m, mean number of other positions with the same m-token context"
    )
    longest_repeat: int = Field(description="tokens in the longest substring that occurs twice, overlaps allowed")
    repeat_starts: tuple[int, int] | None = Field(
        description="where its two earliest occurrences begin, counted from 0; null where no token occurs twice"
    )
    survival: float | None = Field(description="(1 - flip)^period, where both were given")
    lz_phrases: int = Field(description="phrases of the Lempel-Ziv parse (1976), read backwards")
    lz_complexity: float = Field(
        description="phrases over those of random strings of that length and alphabet: 1 random, towards 0 repetitive"
    )
    longest_match: tuple[int, ...] | None = Field(
        None, description="with --positions: tokens of the longest context each position shares with another"
    )
    competitors: tuple[tuple[int, ...], ...] | None = Field(
        None, description="with --positions: competitors of each position, row m - 1 for contexts of m tokens"
    )


@SCHEMAS.register("repetition")
class RepetitionContent(Content):
    """What `workbench repetition --json` writes."""

    format: int = 1
    strings: tuple[StringRepetition, ...] = Field(description="in the order given: texts, then files")
