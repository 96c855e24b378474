"""The button that gives one panel the whole window; assets/compare.js follows it."""

from dash import html
from dash.development.base_component import Component


def maximise(panel_id: str, what: str, key: str | None = None) -> Component:
    """Return the button.

    Args:
        panel_id: id of the panel.
        what: the panel in words, "the map".
        key: the key that does the same, where there is one.
    """
    keyed = {"aria-keyshortcuts": key} if key else {}
    title = f"Maximise {what}" + (f": {key}" if key else "") + "; Escape takes it back"
    about = {"data-maximise": panel_id, "aria-label": f"Maximise {what}", "aria-pressed": "false", **keyed}
    return html.Button("⤢", type="button", className="maximise", title=title, **about)
