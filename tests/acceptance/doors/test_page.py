"""The pages at `/` and `/docs` (T20): what was stored is never markup, and a browser is told to run nothing of it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from knowledge.wiring.open import Knowledge
from orchestrator.http.page import FILES, POLICY
from tests.support.cases import load_tables
from tests.support.processes import entry

PAGE = Path(__file__).resolve().parents[3] / "orchestrator" / "http" / "page"
AT_ONCE = Path(__file__).resolve().parents[2] / "support" / "asked_at_once.js"
BROWSER = Path(__file__).resolve().parents[2] / "support" / "small_browser.js"
CORPUS = load_tables("test_page")["CORPUS"]


class _Looked(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag in {"script", "style"}
        for name, value in attrs:
            if name.startswith("on") or name == "style" or (value or "").lower().startswith(("javascript:", "http")):
                self.inline.append(f"{tag} {name}")

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.inline.append(data)


async def test_t20_the_page_is_static_and_a_browser_is_told_to_run_nothing_else(http: httpx.AsyncClient) -> None:
    for path, (name, kind) in FILES.items():
        answer = await http.get(path)
        assert answer.status_code == 200
        assert answer.content == (PAGE.parent / name).read_bytes()
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "*" not in POLICY
    for name in ("index.html", "reference.html"):
        looked = _Looked()
        looked.feed((PAGE / name).read_text())
        assert looked.inline == []


async def test_no_page_names_another_host_so_that_all_of_them_work_without_a_network(http: httpx.AsyncClient) -> None:
    for path in FILES:
        answer = await http.get(path)
        assert re.findall(r"(?i)(?:https?:|wss?:|ftp:)?//[a-z0-9\[]", _without_comments(answer.text)) == [], path
        assert re.findall(r"(?i)@import|(?<![a-z])url\(", answer.text) == [], path
        allowed = re.findall(r"(?i)https?:|\b[a-z0-9-]+\.[a-z]{2,}", answer.headers["content-security-policy"])
        assert allowed == [], path
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert (await http.get(path)).status_code == 404


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^//.*$", "", text.removeprefix("<!doctype html>"))


async def test_the_reference_shows_every_operation_of_the_document_and_t20_nothing_in_it_becomes_an_element(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()
    operations = [told for methods in document["paths"].values() for told in methods.values()]
    for number, told in enumerate(operations):
        told["summary"] += CORPUS[number % len(CORPUS)]
    ran = await asyncio.to_thread(_in_browser, json.dumps({"openapi.json": document}), "reference.js")
    assert ran.returncode == 0, ran.stderr
    made = json.loads(ran.stdout)
    assert made["executed"] == []
    assert set(made["tags"]) == {
        "section", "h2", "details", "summary", "code", "span", "p", "h4", "pre",
        "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    shown = set(made["texts"])
    assert {" " + told["summary"] for told in operations} <= shown
    paths = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert paths <= shown
    example = document["paths"]["/v1/entries"]["post"]["requestBody"]["content"]["application/json"]["example"]
    (asked,) = [text for text in shown if text.startswith("curl -X POST 'the-origin/v1/entries' ")]
    assert "Authorization: Bearer $HARDWON_API_KEY" in asked
    assert example["verified_by"] in asked


def test_t20_its_script_makes_no_markup_of_anything() -> None:
    script = (PAGE / "page.js").read_text() + (PAGE / "reference.js").read_text()
    makes = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|setAttribute|\.href|\.src"
    assert re.findall(makes, script) == []
    assert re.findall(r"setTimeout|setInterval|import\(|localStorage|sessionStorage|cookie", script) == []


async def test_t20_of_a_corpus_of_stored_markup_nothing_becomes_an_element(
    http: httpx.AsyncClient, knowledge: Knowledge
) -> None:
    for number, text in enumerate(CORPUS):
        told = entry(failure_description=f"{text} number {number}", solution_steps=text, technology=text[:50])
        captured = await http.post("/v1/entries", json={**told, "task_id": f"T-{number}", "when_to_try": text})
        assert captured.status_code == 201, captured.text
    await knowledge.checkpoints.process_all()
    stats = await http.get("/v1/stats")
    patterns = await http.get("/v1/patterns", params={"limit": 20})
    context = await http.post("/v1/contexts", json={"task": {"description": CORPUS[0]}, "agent_type": CORPUS[1]})
    for answer in (stats, patterns, context):
        assert answer.headers["content-type"] == "application/json"
    page = (await http.get("/")).text
    assert not any(text in page for text in CORPUS if text.startswith("<img") or "alert" in text)

    answers = {"v1/stats": stats.json(), "v1/patterns": patterns.json(), "v1/contexts": context.json()}
    assert len(patterns.json()["patterns"]) == len(CORPUS)
    ran = await asyncio.to_thread(_in_browser, json.dumps(answers), "page.js")
    assert ran.returncode == 0, ran.stderr
    made = json.loads(ran.stdout)
    assert set(made["tags"]) <= {"div", "dt", "dd", "li", "small", "strong", "p"}
    assert made["executed"] == []
    shown = set(made["texts"])
    assert {pattern["solution"] for pattern in patterns.json()["patterns"]} <= shown  # as it was stored, as text
    assert context.json()["text"] in shown


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no JavaScript engine here to run the page's script in")
    return node


def _in_browser(told: str, script: str) -> subprocess.CompletedProcess[str]:
    typed = [_node(), str(BROWSER), str(PAGE / script)]
    return subprocess.run(typed, input=told, capture_output=True, text=True, check=False)


def _asked_at_once(script: str, events: list[object], answers: dict[str, object]) -> dict[str, dict[str, object]]:
    ran = subprocess.run(
        [_node(), str(AT_ONCE), str(PAGE.parent / script)],
        input=json.dumps({"events": events, "answers": answers}),
        capture_output=True,
        text=True,
        check=True,
    )
    made: dict[str, dict[str, object]] = json.loads(ran.stdout)
    return made


def test_the_answer_on_the_page_is_that_of_the_last_question() -> None:
    """A late answer took the place of the one after it, and an error left the answer before it standing."""
    said = {"answer_id": "1", "status": "answered", "citations": []}
    answers: dict[str, object] = {
        "first": [300, 200, json.dumps(said | {"answer": "one"})],
        "second": [10, 200, json.dumps(said | {"answer": "two"})],
        "broken": [20, 502, "<html>Bad Gateway</html>"],
    }
    first, second, broken = (["asking", "submit", {"question": told}] for told in ("first", "second", "broken"))
    made = _asked_at_once("documents_page/documents.js", [first, second], answers)
    assert (made["text"]["textContent"], made["state"]["textContent"]) == ("two", "")
    made = _asked_at_once("documents_page/documents.js", [second, broken], answers)
    assert (made["answer"]["hidden"], made["state"]["textContent"]) == (True, "the server answers 502")


def test_a_list_that_is_asked_for_twice_stands_there_once() -> None:
    pattern = {"pattern_id": "p", "project_count": 1, "success_count": 1, "attempt_count": 1, "entry_type": "x"}
    page = json.dumps({"patterns": [pattern] * 20})
    answers: dict[str, object] = {
        "v1/stats": [10, 200, json.dumps({"entries": {}, "patterns": 40, "projects": 1})],
        "after=p": [50, 200, json.dumps({"patterns": []})],
        "v1/patterns": [50, 200, page],
    }
    made = _asked_at_once("page/page.js", [["who", "submit", {}], ["who", "submit", {}]], answers)
    assert made["patterns"]["children"] == 20
