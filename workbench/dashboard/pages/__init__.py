"""The pages. Adding one is one file with a `Page` and one name in the list below."""

from models.registry import Registry
from workbench.dashboard.pages.attention import ATTENTION
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.coordinates import COORDINATES
from workbench.dashboard.pages.failures import FAILURES
from workbench.dashboard.pages.heads import HEADS
from workbench.dashboard.pages.help import HELP
from workbench.dashboard.pages.intervene import INTERVENE
from workbench.dashboard.pages.playground import PLAYGROUND
from workbench.dashboard.pages.runs import RUNS

PAGES: Registry[Page] = Registry("page")
for page in (RUNS, ATTENTION, HEADS, FAILURES, COORDINATES, PLAYGROUND, INTERVENE, HELP):
    PAGES.register(page.path)(page)
