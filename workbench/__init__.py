"""Where one works: run store, command line, figures and dashboard.

`models`, `analyses` and `workbench` are plain top-level names, so a user's own `models/` folder next to a
notebook would silently take our place. Importing `workbench` therefore checks that all three come from one folder.
"""

from importlib.util import find_spec
from pathlib import Path

_HOME = Path(__file__).resolve().parent.parent


def _folder_of(package: str) -> Path | None:
    """Return the folder that `import package` would load, without loading it; None where there is none."""
    try:
        spec = find_spec(package)
    except ValueError:  # a module put into sys.modules by hand has no spec
        return None
    if spec is None or not spec.submodule_search_locations:
        return Path(spec.origin).resolve() if spec and spec.origin else None
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def _check_siblings() -> None:
    """Raise ImportError, naming both paths, where `models` or `analyses` is not the one next to this package."""
    for package in ("models", "analyses"):
        found = _folder_of(package)
        expected = _HOME / package
        if found != expected:
            raise ImportError(
                f"copy-workbench needs its own package {package!r} from {expected}, but Python finds "
                f"{found or 'none'} first; rename that folder, or start Python elsewhere"
            )


_check_siblings()
