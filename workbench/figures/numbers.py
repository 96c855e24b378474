"""How numbers are written beside figures: one minus, and no sign for what rounds to nothing."""


def plain_number(value: float, digits: int = 2) -> str:
    """Return a number with so many decimals, "0.25" or "−0.25"."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign and so many decimals, "+0.25"; "0.00" for what rounds to nothing."""
    text = plain_number(value, digits)
    return f"+{text}" if float(text.replace("−", "-")) > 0 else text
