"""Errors meant for the person who caused them: what was given, what was expected, what to do.

The command line prints the message on one line, without a traceback, and exits with `exit_code`.
"""


class WorkbenchError(Exception):
    """Something could not be done (exit code 1): a full disk, a corrupt run, a diverged training."""

    exit_code = 1


class UsageError(WorkbenchError, ValueError):
    """Something was asked for in a way that cannot work (exit code 2): unknown name, impossible shape."""

    exit_code = 2


class TrainingDiverged(WorkbenchError):
    """The loss or a gradient stopped being finite."""
