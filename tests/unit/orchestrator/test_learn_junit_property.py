"""Generated pairs of reports and a model of the truth: nothing is learned that was not shown, and little is missed."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.importers import junit_reader
from orchestrator.importers.ci_reports import proof
from orchestrator.importers.ci_reports.cases import Scope, Tally
from orchestrator.importers.junit import read_repaired_tests

SUITES = ("cart", "order")
HOSTS = ("", "chromium", "firefox")
CLASSES = ("shop.Cart", "shop.Order", "test")
NAMES = ("adds", "sums", "loads", "loads > twice", "sub [m] (i=1)", "sub", "t[0x7f00aa]", "t[0x7f00bb]")
FOLDERS = ("", "a", "b")
ENDS = ("passed", "passed", "passed", "failed", "skipped", "disabled", "flaky", "rerun")
CONTAINERS = ("", "initializationError", "setUpClass (shop.Cart)")


@dataclass(frozen=True, order=True)
class Identity:
    """A test as the model knows it. A failure's words carry it, so that an entry says which test it is of."""

    folder: str
    host: str
    suite: str
    classname: str
    name: str


@dataclass
class Pair:
    """Two runs: how the tests of each identity ended, one item for each element of the reports."""

    before: dict[Identity, list[str]] = field(default_factory=dict)
    after: dict[Identity, list[str]] = field(default_factory=dict)


def generate(random: random.Random) -> Pair:
    """Return a pair of runs in which names repeat, tests vanish, move, are switched off or retried."""
    pair = Pair()
    hosts, folders = random.choice((HOSTS[:1], HOSTS[1:], HOSTS)), random.choice((FOLDERS[:1], FOLDERS[1:]))
    for _ in range(random.randint(1, 8)):
        test = Identity(*(random.choice(each) for each in (folders, hosts, SUITES, CLASSES, NAMES)))
        if test.classname != "test" and random.random() < 0.1:
            test = replace(test, name=random.choice(CONTAINERS))
        pair.before[test] = random.choices(ENDS, k=random.choice((1, 1, 1, 2)))
    for test in list(pair.before):
        if random.random() < 0.7:
            pair.after[test] = random.choices(ENDS, k=random.choice((1, 1, 1, 2)))
        if random.random() < 0.3:
            part = random.choice(("folder", "host", "suite", "classname", "name"))
            other = replace(test, **{part: random.choice({"folder": folders, "host": hosts, "suite": SUITES,
                                                           "classname": CLASSES, "name": NAMES}[part])})  # fmt: skip
            pair.after.setdefault(other, ["passed"])
    return pair


def write(run: dict[Identity, list[str]], folder: Path, random: random.Random) -> None:
    """Write the reports of a run, split over files at random."""
    files: dict[tuple[str, int, str, str], list[str]] = {}
    for test, ends in run.items():
        for end in ends:
            key = (test.folder, random.randint(0, 1), test.suite, test.host)
            files.setdefault(key, []).append(element(test, end))
    for number, ((place, _, suite, host), elements) in enumerate(files.items()):
        (folder / place).mkdir(parents=True, exist_ok=True)
        hostname = f" hostname={quoteattr(host)}" if host else ""
        body = f"<testsuite name={quoteattr(suite)}{hostname}>{''.join(elements)}</testsuite>"
        (folder / place / f"{number}.xml").write_text(body, encoding="utf-8")


def element(test: Identity, end: str) -> str:
    words = quoteattr(f"it broke: {token(test)}")
    children = {
        "failed": f"<failure message={words}/>",
        "skipped": "<skipped/>",
        "flaky": f"<flakyFailure message={words}/>",
        "rerun": f"<failure message={words}/><rerunFailure message={words}/>",
    }.get(end, "")
    status = ' status="disabled"' if end == "disabled" else ""
    return f"<testcase classname={quoteattr(test.classname)} name={quoteattr(test.name)}{status}>{children}</testcase>"


def token(test: Identity) -> str:
    """Return the words of a test: without an address, which a description leaves out."""
    return f"{test.folder}|{test.host}|{test.suite}|{test.classname}|{test.name}".replace("0x", "hex ")


def learned(pair: Pair, seed: int) -> tuple[list[str], dict[str, int]]:
    """Return the tokens of the tests that are learned, and what is left out."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        chance = random.Random(seed)
        for name, run in (("before", pair.before), ("after", pair.after)):
            (Path(scratch) / name).mkdir()
            write(run, Path(scratch) / name, chance)
            if not run:
                (Path(scratch) / name / "none.xml").write_text("<testsuite/>")
        found = read_repaired_tests(Path(scratch) / "before", Path(scratch) / "after", project="p", solution="DIFF")
        entries = list(found.entries)
        assert all(entry.solution_steps == "DIFF" for entry in entries)
        return [str(entry.failure_description).rpartition("it broke: ")[2] for entry in entries], found.left_out


def is_shown(test: Identity, pair: Pair) -> bool:
    """The truth: the test ran again under its identity and passed, or, for a container, the tests under it did."""
    later = pair.after.get(test)
    if later is None:
        return _is_shown_by_others(test, pair)
    earlier = pair.before[test]
    switched_off = {"skipped", "disabled"} & {*earlier, *later}
    return set(later) == {"passed"} and len(later) == len(earlier) and not switched_off


def _is_shown_by_others(test: Identity, pair: Pair) -> bool:
    """Names of subtests, names with addresses, and containers are absent once they pass."""

    def ends(under: Callable[[Identity], bool]) -> Counter[str]:
        return Counter(end for other, ends in pair.after.items() if under(other) for end in ends)

    if test.name in CONTAINERS:
        prefix = "shop.Cart" if "(" in test.name else test.classname
        found = ends(
            lambda other: other.host == test.host and other.folder == test.folder and other.classname == prefix
        )
        return found["passed"] > 0 and not {*found} - {"passed", "skipped", "disabled"}
    scope = replace(test, name="")
    if test.name == "sub [m] (i=1)":
        found = ends(lambda other: replace(other, name="") == scope and other.name == "sub")
    elif test.name.startswith("t["):
        found = ends(lambda other: replace(other, name="") == scope and other.name.startswith("t["))
    elif test.name == "loads":
        found = ends(lambda other: replace(other, name="") == scope and other.name.startswith("loads > "))
    else:
        return False
    return found["passed"] > 0 and not {*found} - {"passed", "skipped", "disabled"}


def find_false_proofs(seed: int) -> list[str]:
    pair = generate(random.Random(seed))
    by_token = {token(test): test for test in pair.before}
    return [each for each in learned(pair, seed)[0] if not is_shown(by_token[each], pair)]


@pytest.mark.long
@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_nothing_is_learned_that_did_not_run_and_pass_under_the_same_identity(seed: int) -> None:
    assert find_false_proofs(seed) == []


@pytest.mark.long
def test_nothing_is_learned_falsely_from_10_000_pairs() -> None:
    assert [seed for seed in range(10_000) if find_false_proofs(seed)] == []


@pytest.mark.parametrize("mutant", ["hostname", "suite", "status", "folder", "number"])
def test_a_reader_that_ignores_a_part_of_the_identity_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope
    if mutant == "hostname":
        monkeypatch.setattr(junit_reader, "Scope", lambda **told: scope(**told | {"host": ""}))
    elif mutant == "suite":
        monkeypatch.setattr(junit_reader, "Scope", lambda **told: scope(**told | {"suites": ()}))
    elif mutant == "folder":
        monkeypatch.setattr(junit_reader, "Scope", lambda **told: scope(**told | {"folder": ()}))
    elif mutant == "status":
        monkeypatch.setattr(junit_reader, "_state_flags", lambda _: 0)
    else:
        compare = proof._compare
        monkeypatch.setattr(proof, "_compare", lambda earlier, later: compare(Tally(failed=later.passed), later))
    assert any(find_false_proofs(seed) for seed in range(400))


def mended_pair(random: random.Random) -> tuple[Pair, Identity]:
    """Return a pair in which one test, of those whose identity is their own, really was mended."""
    pair = generate(random)
    plain = [test for test in pair.before if test.name in {"adds", "sums", "loads > twice"}]
    test = random.choice(plain) if plain else Identity(
        next(iter(pair.before)).folder, next(iter(pair.before)).host, "cart", "shop.Cart", "adds")  # fmt: skip
    pair.before[test], pair.after[test] = [random.choice(("failed", "rerun"))], ["passed"]
    return pair, test


@pytest.mark.long
def test_of_500_pairs_in_which_a_test_was_mended_98_in_100_are_learned() -> None:
    found = 0
    for seed in range(500):
        pair, test = mended_pair(random.Random(seed))
        found += learned(pair, seed)[0].count(token(test)) == 1
    assert found >= 490
