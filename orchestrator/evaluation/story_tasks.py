"""The tasks of the demo's story: small programs with a failing test, and the edits that an agent may try on them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_TEST_SECONDS = 60
_COMMAND = ("-I", "-m", "unittest", "discover", "-s", ".")
CHECK = "python -m unittest discover -s ."
"""The command that decides, as it is told to the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change that an agent may try: words that lead to its code, and the text that it replaces."""

    advice: str
    code: str
    old: str
    new: str

    @property
    def steps(self) -> str:
        """The solution as it is captured and handed out."""
        return f"{self.advice}: `{self.code}`."


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingTask:
    """A task of a project: a module, its test, and the edits in the order in which the agent tries them alone.

    `taught`: edits that it tries only where its context says so.
    """

    project_id: str
    task_id: str
    description: str
    failure: str
    module: str
    test: str
    edits: Sequence[Edit]
    taught: Sequence[Edit] = ()
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The edits that were tried, the last of which made the test pass, and the error that was met at first."""

    error: str
    tried: tuple[Edit, ...]

    @property
    def solution(self) -> Edit:
        """The edit that made the test pass."""
        return self.tried[-1]


def meet_error(task: CodingTask) -> str:
    """Run the test of a task before anything was tried; return the line of the error."""
    output = _run_test(task, None)
    if output is None:
        raise AssertionError(f"the test of {task.task_id} passes before anything was mended")
    return next(line for line in reversed(output.splitlines()) if re.match(r"\w+(Error|Exception)\b", line))


def solve(task: CodingTask, error: str, context: str = "") -> Attempts:
    """Try edits until the test passes: first the one whose code stands in the context, then the agent's own."""
    tried: list[Edit] = []
    for edit in _order_edits(task, context):
        tried.append(edit)
        if _run_test(task, edit) is None:
            return Attempts(error=error, tried=tuple(tried))
    raise AssertionError(f"no edit solves {task.task_id}")


def _order_edits(task: CodingTask, context: str) -> Iterator[Edit]:
    known = [edit for edit in (*task.edits, *task.taught) if edit.code in context]
    first = min(known, key=lambda edit: context.index(edit.code), default=None)
    if first is not None:
        yield first
    yield from (edit for edit in task.edits if edit is not first)


def _run_test(task: CodingTask, edit: Edit | None) -> str | None:
    """Run a task's test in a folder of its own; return its output if it fails, None if it passes."""
    module = task.module if edit is None else task.module.replace(edit.old, edit.new)
    with tempfile.TemporaryDirectory(prefix="hardwon-demo-") as name:
        folder = Path(name)
        (folder / "program.py").write_text(module, encoding="utf-8")
        (folder / "test_program.py").write_text(task.test, encoding="utf-8")
        if task.data is not None:
            (folder / "data.csv").write_bytes(task.data)
        result = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, *_COMMAND], cwd=folder, capture_output=True, encoding="utf-8", errors="replace",
            check=False, timeout=_TEST_SECONDS, env={"TZ": "UTC"},
        )  # fmt: skip
        return None if result.returncode == 0 else result.stderr


def _drop_zone(old: str) -> Edit:
    return Edit(
        advice="Take the time zone off the stored moment",
        code="replace(tzinfo=None)",
        old=old,
        new=f"{old}.replace(tzinfo=None)",
    )


_AWARE_NOW = Edit(
    advice="Ask for the present with its time zone",
    code="datetime.now(UTC)",
    old="datetime.now()",
    new="datetime.now(UTC)",
)
_MOMENTS_TEST = """
import unittest
from datetime import UTC, datetime, timedelta, timezone

import program

NOW = datetime.now(timezone(timedelta(hours=14)))


class Moments(unittest.TestCase):
    def test_a_moment_of_another_zone(self):
        {assertion}
"""
ORDER_AGE = CodingTask(
    project_id="web-shop",
    task_id="order-age",
    description="Show how many days ago an order was placed",
    failure="The order page fails: subtracting the moment an order was placed from the present raises.",
    module="""
from datetime import UTC, datetime


def age_in_days(placed):
    return (datetime.now() - placed).days
""",
    test=_MOMENTS_TEST.format(assertion="self.assertEqual(program.age_in_days(NOW - timedelta(days=3, hours=1)), 3)"),
    edits=(_drop_zone("- placed"), _AWARE_NOW),
)
OVERDUE = CodingTask(
    project_id="billing",
    task_id="overdue",
    description="The overdue report crashes as soon as it compares a due date with the current time",
    failure="The report of unpaid invoices crashes where a due date is compared with the current time.",
    module="""
from datetime import UTC, datetime


def is_overdue(due):
    return datetime.now() > due
""",
    test=_MOMENTS_TEST.format(assertion="self.assertTrue(program.is_overdue(NOW - timedelta(hours=1)))"),
    edits=(_drop_zone("> due"), _AWARE_NOW),
)

_FIRST_PART = Edit(
    advice="Convert what stands before the comma",
    code="text.split(',')[0]",
    old="float(text)",
    new="float(text.split(',')[0])",
)
NO_COMMAS = Edit(
    advice="Take the commas out before converting",
    code="text.replace(',', '')",
    old="float(text)",
    new="float(text.replace(',', ''))",
)
"""The wrong hint: of 1.299,00 it makes 1.299."""
_DECIMAL_POINT = Edit(
    advice="Drop the thousands' dots, then make the comma a point",
    code="text.replace('.', '').replace(',', '.')",
    old="float(text)",
    new="float(text.replace('.', '').replace(',', '.'))",
)


def _amount_task(project_id: str, description: str, text: str, amount: float) -> CodingTask:
    return CodingTask(
        project_id=project_id,
        task_id="amounts",
        description=description,
        failure="An amount that is written with a decimal comma is not read.",
        module="def read_amount(text):\n    return float(text)\n",
        test=f"""
import unittest

import program


class Amounts(unittest.TestCase):
    def test_a_decimal_comma(self):
        self.assertEqual(program.read_amount({text!r}), {amount})
""",
        edits=(_FIRST_PART, _DECIMAL_POINT),
        taught=(NO_COMMAS,),
    )


AMOUNTS = (
    _amount_task("web-shop", "Import the catalogue of the new supplier", "2.049,50", 2049.5),
    _amount_task("billing", "Sum up the amounts of the bank statement", "3.149,75", 3149.75),
    _amount_task("warehouse", "Read the weights from the carrier's file", "4.249,25", 4249.25),
)

LATIN_1 = Edit(
    advice="Open the file with another encoding",
    code="encoding='latin-1'",
    old="encoding='utf-8'",
    new="encoding='latin-1'",
)
CP1252 = Edit(
    advice="Open the file with another encoding",
    code="encoding='cp1252'",
    old="encoding='utf-8'",
    new="encoding='cp1252'",
)
_SKIP_BYTES = Edit(
    advice="Skip the bytes that cannot be read",
    code="errors='ignore'",
    old="encoding='utf-8'",
    new="encoding='utf-8', errors='ignore'",
)


def _import_task(project_id: str, task_id: str, description: str, text: str) -> CodingTask:
    return CodingTask(
        project_id=project_id,
        task_id=task_id,
        description=description,
        failure="Reading the exported CSV file fails.",
        module="def read():\n    with open('data.csv', encoding='utf-8') as file:\n        return file.read()\n",
        test=f"""
import unittest

import program


class Files(unittest.TestCase):
    def test_the_text_of_the_file(self):
        self.assertEqual(program.read(), {text!r})
""",
        edits=(_SKIP_BYTES, LATIN_1, CP1252),
        data=text.encode("cp1252"),
    )


FIRST_IMPORTS = (
    _import_task("web-shop", "customers", "Import the list of customers", "Café Müller;Köln\n"),
    _import_task("billing", "customers", "Import the list of customers", "Café Müller;Köln\n"),
)
"""The file is Latin-1 as well, so that the weaker rival leads when the other arrives."""
NEXT_IMPORTS = (
    _import_task("warehouse", "carriers", "Load the rates of the carriers", "Paket;4,90 €\n"),
    _import_task("reports", "regions", "Load the sales by region", "Süd;1.200 €\n"),
    _import_task("crm", "notes", "Load the notes about customers", "„dringend“;Weiß\n"),
    _import_task("portal", "offers", "Load the offers of a partner", "99 €;Angebot\n"),
    _import_task("archive", "letters", "Load the letters of the archive", "5 €;Señor\n"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A proposal for a design review: what an agent proposes alone, and what it proposes with the reviewer's rule."""

    project_id: str
    task_id: str
    description: str
    alone: str
    bounded: str


FEEDBACK = "No retry without an end: an outage of theirs must not hold all our workers."
_BOUNDED = "then park it in a queue"


def _design(project_id: str, task_id: str, service: str, thing: str) -> Design:
    return Design(
        project_id=project_id,
        task_id=task_id,
        description=f"Design what happens to {thing} when the {service} does not answer",
        alone=f"Call the {service} again in a loop until it answers.",
        bounded=f"Call the {service} three times with growing pauses and jitter, {_BOUNDED} and tell a person.",
    )


FIRST_DESIGN = _design("web-shop", "payments", "payment service", "an order")
NEXT_DESIGN = _design("warehouse", "labels", "shipping service", "a parcel")


def propose(design: Design, context: str = "") -> tuple[str, ...]:
    """Return the proposals that it takes to pass the review: the reviewer turns down a retry without an end."""
    return (design.bounded,) if _BOUNDED in context else (design.alone, design.bounded)


FOREIGN = (
    ("mobile", "release-notes", "Write the release notes of the mobile app"),
    ("billing", "currency", "Show amounts of invoices in the currency of the customer"),
    ("reports", "encoding-column", "Add a column to the sales report that names the region"),
)
"""Tasks that nothing was learned for, two of them in the words of projects where something was."""
