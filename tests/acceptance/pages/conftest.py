"""A browser, and the sites it looks at: one server with a seeded store for all tests of a process, one with keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.pages.site_server import Site, run_site
from tests.conftest import TEMPLATE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


def _run(postgres_dsn: str, *, with_keys: bool) -> Iterator[Site]:
    with run_site(postgres_dsn, template=TEMPLATE, with_keys=with_keys) as site:
        yield site


@pytest.fixture(scope="session")
def site(postgres_dsn: str) -> Iterator[Site]:
    """A server without keys over a seeded store."""
    yield from _run(postgres_dsn, with_keys=False)


@pytest.fixture(scope="session")
def site_with_keys(postgres_dsn: str) -> Iterator[Site]:
    """A server with keys over a seeded store."""
    yield from _run(postgres_dsn, with_keys=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without it the test is skipped. It ends with the module: its driver has a loop in this thread,
    beside which no other test could run one.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Look:
    """A page in a browser, with what its console and its network said."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        self.console: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def go(self, path: str) -> Any:
        """Go to a path; return the response."""
        self.console.clear()
        self.requests.clear()
        return self.page.goto(f"{self.site.address}{path}")

    def count(self, selector: str) -> int:
        """Return how many elements match."""
        return self.page.locator(selector).count()

    def path_of(self, selector: str) -> str:
        """Return the path that a link leads to."""
        return str(self.page.locator(selector).first.get_attribute("href"))


@pytest.fixture
def look(browser: Browser, site: Site) -> Iterator[Callable[..., Look]]:
    """Open a window of some width, theme and other properties on the site."""
    contexts = []

    def open_window(*, width: int = 1280, dark: bool = False, on: Site | None = None, **more: Any) -> Look:
        size: ViewportSize = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", **more)
        context.set_default_timeout(15_000)
        contexts.append(context)
        return Look(context.new_page(), on or site)

    yield open_window
    for context in contexts:
        context.close()
