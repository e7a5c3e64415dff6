"""Failures of a module, class, hook or file: they stand under a name that does not exist once they pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.importers.ci_reports.cases import Names, Run, Scope, Tally, as_tally

_UNITTEST_HOOK = re.compile(r"(?:setUp|tearDown)(?:Class|Module) \((?P<prefix>[^()]*)\)")
_UNITTEST_IMPORT = re.compile(
    r"(?:^|\.)(?:_FailedTest|ModuleImportFailure|LoadTestsFailure|ImportFailure)(?:\.(?P<module>.+))?$"
)
_MOCHA_HOOK = re.compile(
    r'^(?P<prefix>.*?)\s*"(?:before|after) (?:all|each)" hook(?:: [^"]*?)?(?: (?:for|in) "(?P<target>.*)")?(?:: .*)?$'
)
_BATS_HOOK = re.compile(r"^(?:setup|teardown)_(?P<which>file|suite) failed$")
_BOOST_FIXTURE = re.compile(r"(?P<suite>.+)-setup-teardown")
_UNCAUGHT = re.compile(r"^(?P<file>.+) \(uncaught error\)$")
_JAVA_CONTAINERS = {"", "initializationError", "executionError", "classMethod", "initError"}
_COLLECTION = re.compile(
    r"collection (?:failure|error)|error collecting|import(?:ing)? (?:error|test module)", re.IGNORECASE
)
_FILE = re.compile(r"\.(?:m?[jt]sx?|cjs|vue|py|rb|php|bats|go|feature)$")
_TITLE_SEPARATORS = (" > ", " \u203a ", " >> ", " » ")
_CLASS_SEPARATORS = (".", "$", "::", "/", *_TITLE_SEPARATORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Tests that a container's failure kept from running.

    They have a class, a file or a suite at or under one of `prefixes`, or in the scope of the container a name under
    `titles`. `target` is the test that a hook ran for. `everywhere`: all tests of the run. `times`: number of runs
    in which it failed, as in several environments of tox: its tests must pass in as many.
    """

    prefixes: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    suites: tuple[str, ...] | None = None
    target: str = ""
    everywhere: bool = False
    times: int = 1

    def tests(self, run: Run, scope: Scope) -> Iterator[tuple[Scope, str, Tally]]:
        """Yield the tests of a run that belong to the container."""
        for other, names in run.scopes.items():
            if other.host != scope.host:
                continue
            if self.everywhere or self._covers(other) or self._is_suite(other, scope):
                yield from _all(other, names)
            elif self.titles and (other.suites, other.file) == (scope.suites, scope.file):
                yield from (each for each in _all(other, names) if each[1].startswith(self.titles))

    def _is_suite(self, other: Scope, scope: Scope) -> bool:
        suites = self.suites
        return suites is not None and other.suites[: len(suites)] == suites and (bool(suites) or _alike(other, scope))

    def _covers(self, scope: Scope) -> bool:
        own = [name for name in (scope.classname, scope.file, *scope.suites) if name]
        return any(
            name == prefix or name.startswith(tuple(prefix + end for end in _CLASS_SEPARATORS))
            for name in own
            for prefix in self.prefixes
        )


def _alike(scope: Scope, other: Scope) -> bool:
    return scope.file == other.file and (
        scope.classname == other.classname or not {scope.classname, other.classname} - {""}
    )


def _all(scope: Scope, names: Names) -> Iterator[tuple[Scope, str, Tally]]:
    return ((scope, name, as_tally(value)) for name, value in names.items())


def container_of(scope: Scope, name: str, tally: Tally) -> Container | None:
    """Return the tests that a failure stands for, judged by the form of its name; None for a failed test."""
    joined = f"{scope.classname}.{name}" if scope.classname else name
    if hook := _UNITTEST_HOOK.search(joined):
        return Container(prefixes=(hook["prefix"],))
    if failed := _UNITTEST_IMPORT.search(scope.classname):
        return Container(
            prefixes=(f"{failed['module']}.{name}" if failed["module"] else name,), times=max(1, tally.failed)
        )
    if bats := _BATS_HOOK.match(name):
        return _bats_container(scope, whole_run=bats["which"] == "suite")
    prefixes: tuple[str, ...] = ()
    if not scope.classname and name == "TestMain" and scope.suites:
        prefixes = scope.suites[-1:]
    words = " ".join([each.message + each.text[:200] for each in tally.failures])
    if not scope.classname and name and _COLLECTION.search(words):
        prefixes = (name, re.sub(r"\.py$", "", name).replace("/", "."))
        return Container(prefixes=prefixes, times=max(1, tally.failed))
    if not scope.classname and (fixture := _BOOST_FIXTURE.fullmatch(name)):
        prefixes = (fixture["suite"], fixture["suite"].replace("/", "."))
    if not scope.classname and scope.suites and name == scope.suites[-1]:
        return Container(suites=scope.suites)
    if name in _JAVA_CONTAINERS and scope.classname:
        prefixes = (scope.classname,)
    return Container(prefixes=prefixes) if prefixes else _titled_container(scope, name)


def _bats_container(scope: Scope, *, whole_run: bool) -> Container:
    files = tuple(
        each for each in (scope.file, scope.classname, *scope.suites) if each and not each.endswith(" failed")
    )
    return Container(everywhere=True) if whole_run or not files else Container(prefixes=files)


def _titled_container(scope: Scope, name: str) -> Container | None:
    for text in (name, scope.classname):
        if hook := _MOCHA_HOOK.match(text):
            prefix = hook["prefix"].strip()
            prefix = prefix or ("" if text == scope.classname else scope.classname)
            target = hook["target"] or ""
            if prefix and prefix not in {"Root Suite", "{root}", "test"}:
                own = scope.suites if scope.suites and prefix.endswith(scope.suites[-1]) else None
                return Container(prefixes=(prefix,), titles=(f"{prefix} ",), suites=own, target=target)
            return Container(suites=scope.suites, target=target)
    if uncaught := _UNCAUGHT.match(name):
        return Container(prefixes=(uncaught["file"],))
    if name and name == scope.classname:
        return Container(prefixes=(name,))
    return None


def blocks(name: str) -> Iterator[str]:
    """Yield the titles of the describe blocks that a test's full title begins with."""
    for separator in _TITLE_SEPARATORS:
        start = name.find(separator)
        while start > 0:
            yield name[:start]
            start = name.find(separator, start + 1)


def is_file(scope: Scope, name: str) -> bool:
    """Return true for the failure of a whole file in a report that does not say which file a test is in."""
    return bool(_FILE.search(name)) and " " not in name and scope.classname in {"", "test", "Test suite failed to run"}
