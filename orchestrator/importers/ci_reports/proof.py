"""Proof that a test was mended: the same test, by its identity, failed in one run and passed in a later one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from orchestrator.importers.ci_reports.cases import Names, Run, Scope, Tally, as_tally
from orchestrator.importers.ci_reports.containers import Container, blocks, container_of, is_file
from orchestrator.importers.ci_reports.message import has_no_failure_of_its_own, says_only_that_a_subtest_failed

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_DURATION = re.compile(r"\s*(?:[(\[]\d+(?:\.\d+)? ?(?:ms|s|sec|seconds|µs|us|ns)[)\]]|\b\d+\.\d+ ?(?:ms|s))$")
_ABSOLUTE = re.compile(r"(?<![\w.@+/-])(?:file://)?(?:[A-Za-z]:)?/(?:[\w.@+ -]+/)+(?=[\w.@+-])")
_SUBTEST = re.compile(r"^(?P<test>[^\W\d]\w*)(?: \[.*\])?(?: \(.*\))?$", re.DOTALL)
_RUN_NUMBER = re.compile(
    r"(?:shard|part|split|chunk|job|attempt|run|group|batch|node|worker|build|results?|report)?[-_.]?\d+(?:-of-\d+)?"
    r"|\d{4}-\d\d-\d\d.*|[0-9a-f]{8}-[0-9a-f-]{27}",
    re.IGNORECASE,
)
_FILE_PATH = re.compile(r"(?:[A-Za-z]:)?[\w.@+/ -]*/[\w.@+-]+\.[A-Za-z]{1,5}")
_POINT_NUMBER = re.compile(r"^\d+ - ")
_LINE_NUMBER = re.compile(r" \(line \d+\)$")
_MODULE_LINE = re.compile(r"^([a-z]\w*):\d+ ")
_ORDINAL = re.compile(r"(?<=#)\d+$|(?<=fun-)\d+(?=-)|\d+(?=[^\[\]]*\]$)")
"""Numbers by which a test that runs several times is named: of a row, of a subtest of the same name, of a function."""
_ANY = "\0"
_REPETITION = re.compile(r"(?P<test>.*[\[-])(?P<at>\d+)-(?P<times>\d+)\]")
"""The end of a name by pytest-repeat."""
_LONGEST_LOOSE_CHARS = 2000
_AGREEING_PARTS = 2
_MOST_REPETITIONS = 1000
_SUBTEST_SEPARATORS = ("/", " > ", " \u203a ", " ... ", "::", " ")


class Reason(StrEnum):
    """Reasons for which a failed test is not learned."""

    STILL_FAILS = "still_fails"
    NOT_RUN_AGAIN = "not_run_again"
    RAN_ELSEWHERE = "ran_elsewhere"
    SKIPPED = "skipped"
    NOT_UNIQUE = "not_unique"
    CONTRADICTING = "contradicting"
    FLAKY = "flaky"
    CANCELLED = "cancelled"
    SUBTEST_PARENT = "subtest_parent"


REASON_WORDS: Mapping[str, str] = {
    "no_junit_files": "files that are no JUnit reports",
    Reason.STILL_FAILS: "still failing",
    Reason.NOT_RUN_AGAIN: "not run again",
    Reason.RAN_ELSEWHERE: "run again on another host or in another module only",
    Reason.SKIPPED: "skipped or switched off in the later run",
    Reason.NOT_UNIQUE: "with a name that is not unique",
    Reason.CONTRADICTING: "passed and failed in the later run",
    Reason.FLAKY: "passed only after a retry",
    Reason.CANCELLED: "ended by another test's failure",
    Reason.SUBTEST_PARENT: "parents of subtests that failed",
}


class Mended(NamedTuple):
    """A test that failed and passes. `others` are the scopes of other tests of both runs with its class and name."""

    scope: Scope
    name: str
    tally: Tally
    others: list[Scope]


class _Base(NamedTuple):
    suites: tuple[str, ...]
    file: str
    classname: str


@lru_cache(maxsize=64)
def _base(scope: Scope) -> _Base:
    return _Base(scope.suites, scope.file, scope.classname)


_LooseIndex = dict[tuple[_Base, str], list[tuple[Scope, str]]]


@dataclass(slots=True)
class Comparison:
    """Compares an earlier run with a later one."""

    before: Run
    after: Run
    left_out: dict[Reason, int] = field(default_factory=lambda: defaultdict(int))
    _before_scopes: dict[_Base, list[Scope]] = field(default_factory=lambda: defaultdict(list))
    _after_scopes: dict[_Base, list[Scope]] = field(default_factory=lambda: defaultdict(list))
    _loose: tuple[_LooseIndex, _LooseIndex] | None = None
    _after_blocks: dict[tuple[_Base, str], list[tuple[Scope, str]]] | None = None
    _by_class: dict[str, list[tuple[Scope, Names]]] = field(default_factory=lambda: defaultdict(list))
    _after_containers: list[tuple[Scope, Container]] = field(default_factory=list)
    _shapes: dict[tuple[bool, str, _Base], dict[str, dict[str, Tally]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the scopes of both runs."""
        for scope in self.before.scopes:
            self._before_scopes[_base(scope)].append(scope)
        for scope in self.after.scopes:
            self._after_scopes[_base(scope)].append(scope)
        for scope, name, tally in self.after.failed_tests():
            if container := container_of(scope, name, tally):
                self._after_containers.append((scope, container))

    def mended_tests(self) -> Iterator[Mended]:
        """Yield the tests that are proven to be mended; count the others in `left_out`."""
        judged: set[tuple[str, tuple[str, ...], _Base, str]] = set()
        for scope, name, _ in self.before.failed_tests():
            tally = self._tally_before(scope, name)
            is_container = container_of(scope, name, tally) is not None
            folder = _module_folder(scope.folder) if is_container else scope.folder  # each part of a run imports all
            repeated = self._repetitions(scope, name)
            identity = (scope.host, folder, _base(scope), repeated[0] if repeated else name)
            if identity in judged:
                continue
            judged.add(identity)
            reason = self._judge(scope, name, tally)
            if reason is None:
                others = self._others(scope, name)
                if is_container:
                    others = [each for each in others if _module_folder(each.folder) != folder]
                yield Mended(scope, name, tally, others)
            else:
                self.left_out[reason] += 1

    def _tally_before(self, scope: Scope, name: str) -> Tally:
        """Return all tests of one identity in the earlier run."""
        total = Tally()
        for other in self._before_scopes[_base(scope)]:
            value = self.before.scopes[other].get(name)
            if (
                value is not None
                and (other.host, other.folder) == (scope.host, scope.folder)
                and _same_module(scope, other)
            ):
                total.merge(value)
        return total

    def _others(self, scope: Scope, name: str) -> list[Scope]:
        """Return the scopes of other tests of both runs that have the same class and name."""
        if not self._by_class:
            for run in (self.before, self.after):
                for each, names in run.scopes.items():
                    self._by_class[each.classname].append((each, names))
        others = [each for each, names in self._by_class[scope.classname] if name in names]
        same = [each for each in others if (each.host, _base(each)) == (scope.host, _base(scope))]
        folders = (
            {each.folder for each in same if name in run.scopes.get(each, {})} for run in (self.before, self.after)
        )
        if any(len(each) > 1 for each in folders):
            return others
        return [each for each in others if each not in same]

    def _judge(self, scope: Scope, name: str, tally: Tally) -> Reason | None:
        """Return the reason for which nothing is proven; None for a test that was mended."""
        if tally.failures and all(map(has_no_failure_of_its_own, tally.failures)):
            return Reason.CANCELLED
        if self._is_parent(scope, name, tally):
            return Reason.SUBTEST_PARENT
        same = [each for each in self._after_scopes.get(_base(scope), ()) if name in self.after.scopes[each]]
        if same:
            places = self._same_place(scope, name, same)
            if not places:
                return Reason.RAN_ELSEWHERE
            later = Tally()
            for place in places:
                later.merge(self.after.scopes[place][name])
            return _compare(tally, later) or self._judge_numbered(scope, name)
        return self._judge_absent(scope, name, tally)

    def _judge_numbered(self, scope: Scope, name: str) -> Reason | None:
        """Judge a test that passed by those that differ from it by a number alone: it may be another one's now.

        Rows and subtests of the same name are numbered by their order, and repetitions of a test are one test.
        """
        if name.isdecimal():
            return Reason.NOT_UNIQUE
        shape = _ORDINAL.sub(_ANY, name)
        earlier = self._tests_by_shape(self.before, self._before_scopes, scope)
        if shape == name:
            shape = f"{name}#{_ANY}"
        if name not in earlier.get(shape, {}):
            return None
        later = self._tests_by_shape(self.after, self._after_scopes, scope).get(shape, {})
        if any(later[each].failed for each in self._repetitions(scope, name) if each in later):
            return Reason.STILL_FAILS
        if shape.endswith(f"#{_ANY}") and not earlier[shape].keys() <= later.keys():
            return Reason.NOT_UNIQUE
        broken = any(later[each].failed and not tally.failed for each, tally in earlier[shape].items() if each in later)
        return Reason.CONTRADICTING if broken else None

    def _repetitions(self, scope: Scope, name: str) -> list[str]:
        """Return the names of the repetitions of a test, empty for a test that was not repeated."""
        found = _REPETITION.fullmatch(name)
        if found is None or not 1 < int(found["times"]) <= _MOST_REPETITIONS:
            return []
        names = [f"{found['test']}{at}-{found['times']}]" for at in range(1, int(found["times"]) + 1)]
        known = [self.before.scopes[each] for each in self._before_scopes[_base(scope)]]
        return names if all(any(each in tests for tests in known) for each in names) else []

    def _tests_by_shape(
        self, run: Run, scopes: Mapping[_Base, list[Scope]], scope: Scope
    ) -> dict[str, dict[str, Tally]]:
        """Return the tests of a class whose names have a number, by the name without it."""
        key = (run is self.before, scope.host, _base(scope))
        if (known := self._shapes.get(key)) is not None:
            return known
        shapes = self._shapes[key] = {}
        found = [run.scopes[each] for each in scopes.get(_base(scope), ()) if each.host == scope.host]
        for names in found:
            numbered = [name for name in names if name[-1:] == "]" or "#" in name or "fun-" in name]
            for name in filter(_ORDINAL.search, numbered):
                shapes.setdefault(_ORDINAL.sub(_ANY, name), {}).setdefault(name, Tally()).merge(names[name])
        for shape, tests in shapes.items():
            first = shape.removesuffix(f"#{_ANY}")
            for names in found:
                if first != shape and first in names:
                    tests.setdefault(first, Tally()).merge(names[first])
        return shapes

    def _same_place(self, scope: Scope, name: str, found: list[Scope]) -> list[Scope]:
        """Return those of the later run's scopes that are on the host and in the module of the earlier one.

        Folders tell modules apart where one run has the test in several; else a folder that only numbers the run, or
        holds all of it, is no module.
        """
        if found == [scope] and len(self._before_scopes[_base(scope)]) == 1:
            return found
        found = [each for each in found if each.host == scope.host]
        folders = {each.folder for each in found}
        earlier = {
            each.folder
            for each in self._before_scopes[_base(scope)]
            if each.host == scope.host and name in self.before.scopes[each]
        }
        if len(folders) > 1 or len(earlier) > 1:
            found = [each for each in found if each.folder == scope.folder]
        else:
            found = [each for each in found if self._same_folder(scope, each)]
        return [each for each in found if _same_module(scope, each) and self._same_path(scope, each)]

    def _same_folder(self, scope: Scope, other: Scope) -> bool:
        """Return true for folders that may be one module: alike but for numbers, or a run given without any folder."""
        if _module_folder(scope.folder) == _module_folder(other.folder):
            return True
        return (not scope.folder and len(self.before.paths) == 1) or (not other.folder and len(self.after.paths) == 1)

    def _same_path(self, scope: Scope, other: Scope) -> bool:
        """Return false where the earlier file lies in the folder of its module, and the later one in another folder."""
        if not scope.basedir or other.basedir:
            return True
        module = scope.basedir.rpartition("/")[2]
        earlier = self.before.paths.get(scope.folder, ())
        later = self.after.paths.get(other.folder, ())
        if module not in earlier:
            return True
        from_end = earlier[::-1].index(module)
        return len(later) > from_end and later[-1 - from_end] == module

    def _is_parent(self, scope: Scope, name: str, tally: Tally) -> bool:
        if not tally.failures or not all(map(says_only_that_a_subtest_failed, tally.failures)):
            return False
        prefixes = tuple(name + each for each in _SUBTEST_SEPARATORS)
        return any(
            other.startswith(prefixes) and as_tally(value).failed
            for other, value in self.before.scopes.get(scope, {}).items()
        ) or any(
            as_tally(value).failed
            for each, names in self.before.scopes.items()
            if each.suites == (*scope.suites, name)
            for value in names.values()
        )

    def _judge_absent(self, scope: Scope, name: str, tally: Tally) -> Reason | None:
        """Judge a failure whose full name the later run does not have."""
        loose = self._find_loose(scope, name)
        if loose is not None:
            return None if loose is True else loose
        if (subtest := self._judge_subtest(scope, name)) is not None:
            return None if subtest is True else subtest
        container = container_of(scope, name, tally)
        if container is not None:
            return self._judge_container(scope, container, list(container.tests(self.after, scope)))
        if is_file(scope, name):
            return None if self._file_ran(scope, name) else Reason.NOT_RUN_AGAIN
        return self._judge_container(scope, Container(), self._tests_of_block(scope, name))

    def _tests_of_block(self, scope: Scope, name: str) -> list[tuple[Scope, str, Tally]]:
        """Return the tests of a describe block: their titles begin with its own, or it is a suite of its own."""
        if self._after_blocks is None:
            self._after_blocks = defaultdict(list)
            for each, names in self.after.scopes.items():
                for other in names:
                    for title in blocks(other):
                        self._after_blocks[_base(each), title].append((each, other))
                for depth in range(len(each.suites)):
                    block = _base(each)._replace(suites=each.suites[:depth])
                    self._after_blocks[block, each.suites[depth]] += [(each, other) for other in names]
        found = self._after_blocks.get((_base(scope), name), ())
        return [
            (each, other, as_tally(self.after.scopes[each][other])) for each, other in found if each.host == scope.host
        ]

    def _find_loose(self, scope: Scope, name: str) -> Reason | Literal[True] | None:
        """Compare by names without addresses, durations and checkout prefixes; None if nothing is found so."""
        if self._loose is None:
            self._loose = _loose_index(self.before), _loose_index(self.after)
        earlier_names, later_names = self._loose
        key = (_loosen_places(scope), _loosen(name))
        found = [
            (each, other)
            for each, other in later_names.get(key, ())
            if each.host == scope.host and self._same_folder(scope, each) and _same_module(scope, each)
        ]
        found = [(each, other) for each, other in found if _same_checkout(scope, each)]
        if not found:
            return None
        later = Tally()
        for each, other in found:
            later.merge(self.after.scopes[each][other])
        earlier = Tally()
        for each, other in earlier_names[key]:
            if each.host == scope.host and each.folder == scope.folder:
                earlier.merge(self.before.scopes[each][other])
        reason = _compare(earlier, later)
        return True if reason is None else reason

    def _judge_subtest(self, scope: Scope, name: str) -> Reason | Literal[True] | None:
        """Judge a subtest that is listed only when it fails: its test passed and none of its subtests failed."""
        found = _SUBTEST.match(name)
        if found is None or found["test"] == name:
            return None
        test = found["test"]
        if test in self.before.scopes.get(scope, {}):
            return None
        same = [each for each in self._after_scopes.get(_base(scope), ()) if test in self.after.scopes[each]]
        places = self._same_place(scope, test, same)
        later = Tally()
        for place in places:
            later.merge(self.after.scopes[place][test])
            for other, value in self.after.scopes[place].items():
                if other.startswith(f"{test} ") and as_tally(value).failed:
                    return Reason.STILL_FAILS
        if not places:
            return None
        reason = _compare(Tally(failed=1), later)
        return True if reason is None else reason

    def _judge_container(
        self, scope: Scope, container: Container, tests: list[tuple[Scope, str, Tally]]
    ) -> Reason | None:
        """Judge a container: tests under it ran afterwards, all passed, and no container at or under it failed."""
        folders = {each.folder for each, _, _ in tests}
        if len(folders) > 1 or scope.folder in folders:
            tests = [each for each in tests if each[0].folder == scope.folder]
        else:
            tests = [each for each in tests if self._same_folder(scope, each[0])]
        tests = [each for each in tests if _same_module(scope, each[0]) and self._same_path(scope, each[0])]
        if not tests:
            return Reason.NOT_RUN_AGAIN
        total = Tally()
        for _, _, tally in tests:
            total.merge(tally)
        if any(tally.failed and tally.passed for _, _, tally in tests):
            return Reason.CONTRADICTING
        if total.failed or self._container_fails(scope, container):
            return Reason.STILL_FAILS
        if any(tally.passed + tally.skipped < container.times for _, _, tally in tests):
            return Reason.NOT_UNIQUE
        if total.flaky or not total.passed:
            return Reason.FLAKY if total.flaky else Reason.SKIPPED
        ran = (name for _, name, tally in tests if tally.passed)
        hooked = container.target
        return None if not hooked or any(f" {name}".endswith(f" {hooked}") for name in ran) else Reason.NOT_RUN_AGAIN

    def _container_fails(self, scope: Scope, container: Container) -> bool:
        """Return true where a container at, under or above this one failed in the later run."""
        for other_scope, other in self._after_containers:
            if other_scope.host != scope.host:
                continue
            if other.everywhere or container.everywhere:
                return True
            if any(
                mine == theirs or mine.startswith(f"{theirs}.") or theirs.startswith(f"{mine}.")
                for mine in container.prefixes
                for theirs in other.prefixes
            ):
                return True
            if container.suites is not None and other.suites == container.suites:
                return True
        return False

    def _file_ran(self, scope: Scope, name: str) -> bool:
        """Judge a file that failed as a whole, in reports that name no files.

        It ran where the later run has all that the earlier one had and more, the rest passed, and no other file failed.
        """
        failed = [each for each in self.before.failed_tests() if is_file(each[0], each[1])]
        if len(failed) != 1:
            return False
        more = 0
        for each, names in self.before.scopes.items():
            later = self.after.scopes.get(each, {})
            for other, value in names.items():
                if (each, other) == (scope, name):
                    continue
                if other not in later:
                    return False
                more += max(0, _total(as_tally(later[other])) - _total(as_tally(value)))
        for each, names in self.after.scopes.items():
            for other, value in names.items():
                tally = as_tally(value)
                if other not in self.before.scopes.get(each, {}):
                    if tally.failed or tally.flaky:
                        return False
                    more += tally.passed
        return more > 0


def _total(tally: Tally) -> int:
    return tally.passed + tally.failed + tally.skipped


def _compare(earlier: Tally, later: Tally) -> Reason | None:
    """Compare all tests of one identity: the same number must have run, and all passed."""
    if later.failed:
        return Reason.CONTRADICTING if later.passed else Reason.STILL_FAILS
    if later.flaky:
        return Reason.FLAKY
    if not later.passed:
        return Reason.SKIPPED
    if later.skipped or earlier.skipped or later.passed != earlier.passed + earlier.failed:
        return Reason.NOT_UNIQUE
    return None


def _module_folder(folder: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in folder if not _RUN_NUMBER.fullmatch(part))


def _same_module(scope: Scope, other: Scope) -> bool:
    """Return false where both reports name the directory of their module, and the names differ."""
    if not scope.basedir or not other.basedir:
        return True
    return scope.basedir.rpartition("/")[2] == other.basedir.rpartition("/")[2]


def _loose_index(run: Run) -> _LooseIndex:
    index: _LooseIndex = defaultdict(list)
    for scope, names in run.scopes.items():
        base = _loosen_places(scope)
        for name in names:
            index[base, _loosen(name)].append((scope, name))
    return index


def _loosen_places(scope: Scope) -> _Base:
    """Return suites, file and class without what is before the checkout: of paths of files the name alone."""
    *suites, file, classname = (
        each.rpartition("/")[2] if len(each) <= _LONGEST_LOOSE_CHARS and _FILE_PATH.fullmatch(each) else _loosen(each)
        for each in (*scope.suites, scope.file, scope.classname)
    )
    return _Base(tuple(suites), file, classname)


def _loosen(text: str) -> str:
    """Return a name without addresses, durations and directories of absolute paths."""
    if not text or len(text) > _LONGEST_LOOSE_CHARS:
        return text
    if "0x" in text:
        text = _ADDRESS.sub("0x", text)
    if text[-1] in "s)]":
        text = _DURATION.sub("", _LINE_NUMBER.sub("", text))
    if text[:1].isdigit():
        text = _POINT_NUMBER.sub("", text)
    text = _MODULE_LINE.sub(r"\1 ", text) if ":" in text else text
    return _ABSOLUTE.sub("", text) if "/" in text else text


def _same_checkout(scope: Scope, other: Scope) -> bool:
    """Return true where paths differ by what is before the checkout alone.

    An absolute path is the same as a relative one that it ends in; of two absolute ones a folder and the file agree.
    """
    mine_all, their_all = ((*each.suites, each.file, each.classname) for each in (scope, other))
    return all(
        mine == theirs or "/" not in mine + theirs or _same_file(mine, theirs)
        for mine, theirs in zip(mine_all, their_all, strict=True)
    )


def _same_file(mine: str, theirs: str) -> bool:
    absolute = _is_absolute(mine), _is_absolute(theirs)
    if not any(absolute):
        return _loosen(mine) == _loosen(theirs)
    if not all(absolute):
        return mine.endswith(f"/{theirs}") or theirs.endswith(f"/{mine}")
    mine_parts, their_parts = mine.split("/"), theirs.split("/")
    agree = 0
    while mine_parts and their_parts and mine_parts[-1] == their_parts[-1]:
        mine_parts.pop()
        their_parts.pop()
        agree += 1
    if not mine_parts or not their_parts:
        return True
    beside = mine_parts[:-1] == their_parts[:-1] and len(mine_parts) > 1
    return agree >= _AGREEING_PARTS and (not beside or _RUN_NUMBER.fullmatch(mine_parts[-1]) is not None)


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "file://")) or path[1:3] in {":/", ":\\"}
