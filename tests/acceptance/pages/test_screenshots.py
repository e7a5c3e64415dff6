"""The pictures of pages in the documentation: all are there and small, and are taken of pages as they are now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from tests.acceptance.pages.conftest import CHROMIUM
from tests.acceptance.pages.screenshots import MAX_BYTES, PICTURES, list_pictures, serve_pages, take_picture


def test_each_picture_is_in_the_repository_small_of_its_size_and_shown() -> None:
    shown = set(re.findall(r"pictures/([\w-]+\.png)", (PICTURES.parent / "pages.md").read_text(encoding="utf-8")))
    assert {f"{picture.name}.png" for picture in list_pictures("id")} == shown
    assert {path.name for path in PICTURES.iterdir()} == shown
    for picture in list_pictures("id"):
        path = PICTURES / f"{picture.name}.png"
        assert path.stat().st_size <= MAX_BYTES, path
        with Image.open(path) as opened:
            assert opened.size == (picture.width, picture.height), path


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
async def test_a_picture_is_taken_of_the_story_and_of_what_waits(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    async with serve_pages(with_rules=False) as (address, pattern_id), playwright.async_playwright() as running:
        browser = await running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for picture in list_pictures(pattern_id):
            if "rules" not in picture.path:
                taken = await take_picture(browser, address, picture, tmp_path)
                assert 5_000 < taken.stat().st_size <= MAX_BYTES, picture.name
        page = await browser.new_page()
        await page.goto(f"{address}/w/demo/waiting")
        assert await page.locator("h1").inner_text() == "4 things wait for you"
        await browser.close()
