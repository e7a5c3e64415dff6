"""Every page in a real Chromium: keyboard, accessibility, nothing from elsewhere, nothing lost without scripts."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from knowledge.models import EntryId
from orchestrator.http.pages.shell import POLICY
from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.site_server import Site

Window = Callable[..., Look]
WIDTHS = (390, 1280, 1920)
LISTS = (
    "",
    "patterns",
    "patterns?q=deadlock",
    "map",
    "map?group=0",
    "waiting",
    "contexts",
    "documents",
    "documents?kb=case&scope=17",
    "ask",
    "ask?q=For+how+many+days+are+backups+kept",
    "ask?q=Which+discount+do+resellers+get",
    "health",
    "audit",
)


def paths_of(site: Site, workspace: str = "default") -> Sequence[str]:
    """Return the paths of every page of a workspace, one for each kind of context, the richest pattern first."""

    async def find() -> list[str]:
        knowledge = site.knowledge.in_workspace(workspace)
        patterns = await knowledge.lists.patterns(sort="evidence", limit=2)
        contexts = {each.reason: each.context_id for each in await knowledge.contexts.list(limit=500)}
        return [
            *LISTS,
            *(f"patterns/{pattern.pattern_id}" for pattern in patterns),
            *(f"contexts/{context_id}" for context_id in contexts.values()),
        ]

    return [f"/w/{workspace}/{path}" for path in site.run(find())]


def check_page(window: Look, path: str) -> None:
    """Check what holds on every page."""
    response = window.go(path)
    page = window.page
    assert response.status == 200, path
    assert response.headers["content-security-policy"] == POLICY
    page.locator("html.js").wait_for()
    assert window.console == [], path
    assert len(window.requests) <= 4, (path, window.requests)
    assert all(url.startswith(window.site.address) for url in window.requests), window.requests
    assert window.count("[style], style, script:not([src])") == 0, path
    assert [window.count("h1"), window.count("main"), window.count("nav[aria-label='Pages']")] == [1, 1, 1], path
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} scrolls sideways"
    low = page.evaluate(
        "[...document.querySelectorAll('button, select, input:not([type=hidden])')]"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"
    )
    assert low == [], path
    assert page.title() != "owned"


def find_violations(window: Look) -> list[str]:
    """Return the rules of accessibility that a page breaks."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - absent where playwright is

    results: dict[str, Any] = Axe().run(window.page).response
    return [
        f"{each['impact']} {each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}"
        for each in results["violations"]
    ]


@pytest.mark.long
def test_a_person_finds_opens_and_decides_by_keyboard_alone(look: Window) -> None:
    window = look()
    check_page(window, "/w/default/")
    page = window.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("g p ?")
    assert page.input_value("#search") == "g p ?"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "search"
    page.keyboard.press("?")
    assert page.locator("#keys-help").evaluate("dialog => dialog.open")
    page.keyboard.press("Escape")
    assert not page.locator("#keys-help").evaluate("dialog => dialog.open")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/w/default/patterns")
    page.keyboard.press("j")
    assert page.locator("tbody tr").nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("k")
    first = window.path_of("tbody tr a")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{first}")


@pytest.mark.long
def test_a_decision_can_be_taken_back_and_is_sent_once(look: Window, site: Site) -> None:
    window = look()
    window.go("/w/default/waiting?kind=review")
    page = window.page
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    before = int(page.locator("h1 [data-live]").inner_text())
    first = page.locator(".item[aria-current]").get_attribute("id")
    assert window.count(".item .more:visible") == 1
    page.keyboard.press("r")
    assert int(page.locator("h1 [data-live]").inner_text()) == before - 1
    assert int(page.locator(".side [data-live]").inner_text()) == before - 1
    page.locator("#toasts button").wait_for()
    assert page.locator("#toasts").inner_text().startswith("Rejected")
    page.keyboard.press("z")
    page.locator("h1 [data-live]", has_text=re.compile(f"^{before}$")).wait_for()
    assert page.locator(".item[aria-current]").get_attribute("id") == first
    assert [url.split("/")[5] for url in posts] == ["waiting", "undo"]
    page.keyboard.press("r")
    page.locator("#toasts button").wait_for()
    page.reload()
    assert window.count(f"#{first}") == 0
    assert int(page.locator("h1 [data-live]").inner_text()) == before - 1
    assert len(posts) == 3
    assert len([deed for deed in site.run(site.knowledge.deeds.list()) if deed.state == "waiting"]) == 1


@pytest.mark.long
def test_what_another_decided_meanwhile_is_said_in_words(look: Window, site: Site) -> None:
    window = look()
    window.go("/w/default/waiting?kind=review")
    page = window.page
    entry_id = str(page.locator(".item[aria-current]").get_attribute("id")).removeprefix("e-")
    site.run(site.knowledge.reviews.approve(EntryId(UUID(entry_id))))
    page.keyboard.press("r")
    page.get_by_text("does not wait for a review").wait_for()


@pytest.mark.long
def test_everything_is_done_without_a_script_too(look: Window, site: Site) -> None:
    window = look(java_script_enabled=False, width=390)
    page = window.page
    window.go("/w/default/waiting?kind=open")
    assert window.count(".item .more:visible") == window.count(".item")
    item = page.locator(".item", has_text="TLS handshake")
    item.locator("textarea").fill("Update the runner's image")
    item.get_by_role("button", name="Save the solution").click()
    assert page.locator(".field-error").inner_text() == "say what showed that it works, such as the name of a test"
    assert page.locator(".item[aria-current] textarea").input_value() == "Update the runner's image"
    page.locator(".item[aria-current] input[name=verified_by]").fill("pytest tests/test_tls.py")
    page.locator(".item[aria-current]").get_by_role("button", name="Save the solution").click()
    assert "Saved" in page.locator(".toast").inner_text()
    page.locator(".phone-menu summary").click()
    page.locator(".phone-menu").get_by_role("link", name="Patterns").click()
    page.get_by_label("Words, or a whole error").fill("goroutines")
    page.get_by_role("button", name="Filter").click()
    assert window.count("tbody tr") >= 1
    window.go("/w/default/patterns?sort=seen&q=leak")
    assert window.count("tbody tr") == 1


@pytest.mark.long
def test_a_filter_narrows_while_it_is_typed_and_back_restores_the_list(look: Window) -> None:
    window = look()
    window.go("/w/default/patterns?sort=problem")
    page = window.page
    shown = window.count("tbody tr:visible")
    page.locator(".filters input[type=search]").type("deadlock")
    assert 0 < window.count("tbody tr:visible") < shown
    assert re.match(r"\d+ of \d+ shown", page.locator("#shown").inner_text())
    page.locator(".filters input[type=search]").fill("zzz")
    assert page.locator("#nothing").is_visible()
    page.get_by_label("Technology").select_option("python")
    page.wait_for_url("**technology=python**")
    window.go("/w/default/patterns?technology=python&sort=problem")
    rows = page.locator("tbody tr .two a").all_inner_texts()
    page.get_by_role("link", name="Evidence").click()
    page.wait_for_url("**sort=evidence**")
    assert page.locator("th[aria-sort=descending]").inner_text() == "Evidence"
    page.go_back()
    assert page.locator("tbody tr .two a").all_inner_texts() == rows


@pytest.mark.long
def test_the_theme_is_the_systems_and_wide_windows_show_the_chosen_pattern(look: Window) -> None:
    grounds = []
    for dark in (False, True):
        window = look(dark=dark, width=1920)
        window.go("/w/default/patterns")
        grounds.append(window.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        first = window.page.locator("tbody tr .two a").first.inner_text()
        assert window.page.locator("#peek h2").inner_text() == first
    assert grounds[0] != grounds[1]


@pytest.mark.long
def test_somebody_signs_in_with_a_key_and_sees_one_workspace(look: Window, site_with_keys: Site) -> None:
    window = look(on=site_with_keys)
    page = window.page
    assert window.go("/w/default/patterns?sort=problem").status == 401
    page.get_by_label("Key").fill("hw_0123456789ab_nothing")
    page.get_by_role("button", name="Sign in").click()
    assert "opens nothing here" in page.locator(".field-error").inner_text()
    assert "hw_" not in page.url
    page.get_by_label("Key").fill(site_with_keys.keys["member"])
    window.console.clear()
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/w/default/")
    assert window.console == []
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", False)
    page.locator(".switch summary").first.click()
    assert page.locator(".switch .menu a").first.inner_text() == "default"
    assert window.count(".top .switch:not(.phone-menu) .menu a") == 1
    assert window.go("/w/other/").status == 403
    assert "A secret of the others" not in page.content()
    window.go("/w/default/waiting?kind=open")
    item = page.locator(".item", has_text="TLS handshake")
    item.get_by_role("heading").click()
    item.locator("textarea").fill("Write it down")
    item.locator("input[name=verified_by]").fill("make test")
    item.get_by_role("button", name="Save the solution").click()
    page.locator("main > .toast").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/session")
    assert page.context.cookies() == []


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_sound_at_every_width_in_both_themes(look: Window, site: Site, width: int, *, dark: bool) -> None:
    window = look(width=width, dark=dark)
    broken: dict[str, list[str]] = {}
    for path in [*paths_of(site), *paths_of(site, "hostile"), "/session"]:
        if path == "/session":
            window.go(path)
        else:
            check_page(window, path)
        if violations := find_violations(window):
            broken[path] = violations
    assert broken == {}


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 768, 1024, 2560])
def test_no_page_scrolls_sideways_at_other_widths(look: Window, site: Site, width: int) -> None:
    window = look(width=width)
    for path in [*paths_of(site), *paths_of(site, "hostile")]:
        check_page(window, path)


@pytest.mark.long
def test_the_age_of_what_waits_is_whole_at_every_width(look: Window) -> None:
    cut = "each => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().width < 10"
    for width in (320, 390, 700, 1280):
        window = look(width=width)
        for workspace in ("default", "hostile"):
            window.go(f"/w/{workspace}/waiting")
            assert window.count(".item .spread > .nowrap") > 1
            found = f"elements => elements.filter({cut}).map(each => each.textContent)"
            assert window.page.locator(".item .spread > .nowrap").evaluate_all(found) == [], (width, workspace)


@pytest.mark.long
def test_pages_are_light(look: Window, site: Site) -> None:
    window = look()
    sizes: dict[str, tuple[int, int]] = {}
    window.page.on(
        "response", lambda answer: sizes.update({answer.url: (len(answer.body()), len(gzip.compress(answer.body())))})
    )
    window.go("/w/default/patterns")
    window.page.wait_for_load_state("networkidle")
    assert sum(size for size, _ in sizes.values()) <= 120_000, sizes
    assert sum(packed for url, (_, packed) in sizes.items() if url.endswith(("css", "js"))) <= 12_000, sizes
    assert sum(packed for url, (_, packed) in sizes.items() if url.endswith("patterns")) <= 15_000, sizes


@pytest.mark.long
def test_the_map_is_one_tab_stop_that_arrows_walk_and_kinds_dim(look: Window) -> None:
    window = look()
    check_page(window, "/w/default/map")
    page = window.page
    marks = page.locator(".map a")
    assert marks.count() > 8
    assert page.locator(".map a[tabindex='0']").count() == 1
    marks.first.focus()
    seen = {page.evaluate("document.activeElement.getAttribute('href')")}
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft") * 3:
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.getAttribute('href')"))
        assert page.locator(".map a[tabindex='0']").count() == 1
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert label.startswith(page.locator("#read-out-name").inner_text())
        assert label.endswith(page.locator("#read-out-record").inner_text())
    assert len(seen) >= 3
    page.locator("[data-kind='fix']").uncheck()
    assert page.locator(".map a.fix:not(.dim)").count() == 0
    assert page.locator(".map a.rejection:not(.dim)").count() == page.locator(".map a.rejection").count() > 0
    marks.first.focus()
    href = marks.first.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{href}")


@pytest.mark.long
def test_documents_are_asked_and_deleted_without_a_script(look: Window) -> None:
    window = look(java_script_enabled=False)
    page = window.page
    window.go("/w/default/map")
    assert window.count(".map a[href]") > 8
    page.get_by_role("button", name="Show").click()
    assert "kind=" in page.url
    window.go("/w/default/ask")
    page.get_by_role("searchbox", name="Question").fill("For how many days are backups kept?")
    page.get_by_role("button", name="Ask").click()
    assert page.locator("mark").inner_text() == "Backups are made at three in the morning and kept for 35 days."
    window.go("/w/default/documents")
    row = page.locator("tr", has_text="Betriebshandbuch")
    row.locator("summary").click()
    row.get_by_role("button", name="Delete for good").click()
    page.wait_for_url("**/documents?done=deleted")
    assert page.locator("tr", has_text="Betriebshandbuch").count() == 0
    assert page.locator("h1").count() == 1
