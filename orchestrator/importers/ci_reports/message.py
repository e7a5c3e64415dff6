"""The line that says what went wrong: the message of a failure, or the line of its text where that is boilerplate."""

from __future__ import annotations

import re

from orchestrator.importers.ci_reports.cases import Failure
from orchestrator.importers.fields import technology

_MAX_LINE_CHARS = 2000
_MAX_LINES = 6
_BOILERPLATE = re.compile(
    r"(?:(?:the |a )?(?:test|tests|assertion|step|collection|command|process|spec|case|suite)?[ _-]?"
    r"(?:failed|failure|fail|error|errored|failures|exception|errors)[.!]?"
    r"|assert|assertion|assertionerror|none|nonetype|null|undefined|unknown|unknown error|no message|true|false|n/a|-"
    r"|(?:\d+|contains \d+) (?:failed )?(?:sub)?(?:test|step|test step)s?(?: failed)?[.!]?"
    r"|test failure with exit code \d+|exit (?:code|status) \d+|uncaught (?:error|exception)"
    r"|(?:[\w$]+[.\\])*[\w$]*(?:error|exception|failure)"
    r"|thread '.*' (?:\(\d+\) )?panicked at (?!').*"
    r"|\(?in test file .*|traceback \(most recent call last\):"
    r"|test \S+ in \S+ failed!|unexpected exception|not ok \d+.*)?",
    re.IGNORECASE,
)
_PANIC = re.compile(r"^thread '.*' (?:\(\d+\) )?panicked at (?:'(?P<old>.*)', )?.*$", re.MULTILINE)
_PANIC_END = re.compile(r"note: (?:run with|Some details)|stack backtrace:|test .* \.\.\. |failures:|$")
_PYTEST_LINE = re.compile(r"^E {1,3}(\S.*)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")
_GO_NOISE = re.compile(
    r"=== (?:RUN|PAUSE|CONT|NAME)\b|\s*--- (?:FAIL|SKIP|PASS|BENCH)\b|(?:FAIL|exit status \d+|PASS)\s*$|FAIL\t"
)
_GO_PLACE = re.compile(r"^\s+[\w./-]+\.go:\d+: ?(.*)$")
_GO_EXAMPLE = re.compile(r"^got:\n(?P<got>.*?)\n?^want:\n(?P<want>.*?)\n?\Z", re.MULTILINE | re.DOTALL)
_TESTIFY = re.compile(r"^\s+Error:\s+(\S.*)$", re.MULTILINE)
_CATCH = re.compile(
    r"^ *(?P<check>\w+\(.*\))\nwith expansion:\n(?P<values>.*?)(?:\n\w[^\n]* := |\nat |\Z)", re.MULTILINE | re.DOTALL
)
_DOCTEST = re.compile(r"^(?P<check>\w+\(.*\)) is NOT correct!\n\s+values: \w+\( ?(?P<values>.*?) ?\)$", re.MULTILINE)
_BOOST = re.compile(r"^ASSERTION FAILURE:\n(?:- .*\n)*?- message: (?P<message>.*)$", re.MULTILINE)
_BOOST_EXCEPTION = re.compile(r"^EXCEPTION STACK TRACE: -+\n(?P<message>.+)$", re.MULTILINE)
_ERLANG = re.compile(r"^\*\*(?P<reason>(?:error|exit|throw):.*)\Z", re.MULTILINE | re.DOTALL)
_ERLANG_CRASH = re.compile(r"\A\{(?P<reason>\S.*?),\n\s*\[\{\w+,\w+,", re.DOTALL)
_RUBY_FRAME = re.compile(r":\d+:in [`']")
_JEST = re.compile(r"^ *(?:Expected|Received)\b.*: .+$", re.MULTILINE)
_FRAME = re.compile(
    r"\s*(?:at |\u276f |\.\.\. \d+ more|@|from |>?\s*\d+ \||\|\s*\^)|\s*\S+\.\w+:\d+(?::\d+)?:?\s*$"
    r"|\s*(?:\(in test file|\(from function).*"
)
_TELLING = re.compile(
    r"error|fail|expect|assert|exception|panic|abort|cannot|can't|could not|not found|refused|timed? ?out|denied"
    r"|missing|\bgot\b|\bwant|unable|invalid|mismatch|fatal|no such",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"\u25cf |running \d+ tests?$|test result: |test .* \.\.\. |failures:$|---- .* ----$|note: run with|[-=_*~ .]+$"
    r"|\d+ tests?\b.*|(?:ok\b|FAILED|Start \d|Test command:).*$|\[?Error.*\bcode: 'ERR_TEST_FAILURE'.*"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_PLACE = re.compile(
    r"\.(?:py|pyx|mjs|cjs|jsx?|tsx?|vue|go|rs|java|kts?|scala|groovy|rb|php|cs|fs|swift|exs?|clj|erl|dart|lua|bats|sh|cc"
    r"|cpp|cxx|hpp|c|h|pl|hs|zig)(?=[:(]\d+|\", line \d+|, line \d+)"
)
_BOOST_FILE = re.compile(r"^- file *: \S+\.(?:cc|cpp|cxx|hpp|h)$", re.MULTILINE)
_PATH_CHARS = 300
_SUBTESTS_FAILED = re.compile(r"(?:contains )?\d+ (?:failed )?(?:sub)?(?:test|step|test step)s?(?: failed)?[.!]?")
_CANCELLED = re.compile(r"\bwas cancell?ed\b")
_SOURCE_FILE = re.compile(r"[^ ]*\.(?:m?[jt]sx?|cjs|py|go|rb|php|bats|feature|rs|java|kt|exs?)")
_FOREIGN = re.compile(
    r"node_modules|site-packages|dist-packages|/usr/(?:lib|local)/|/rustc/|/\.cargo/|node:|/go/(?:src|pkg)/"
)


def describe(failure: Failure, name: str) -> str:
    """Return what went wrong: the message, or where it is boilerplate a line of the text or of the output."""
    message = _strip_addresses(failure.message)
    if failure.kind == name and message.endswith("..."):  # minitest: the first line of several
        message = _whole_message(message, failure.text)
    if told := _checked_values(failure.text):
        return _limit(_strip_addresses(told))
    if not _is_boilerplate(message, failure.kind):
        if "\n" not in message and (values := _JEST.findall(failure.text)):
            return _limit("\n".join([message, *map(str.strip, values[:2])]))
        more = find_reason(failure.text, name) if len(message.split()) == 1 else ""
        return _limit(message if message in more or not more else f"{message}\n{_strip_addresses(more)}")
    sentence = failure.kind if " " in failure.kind.strip() and not _is_boilerplate(failure.kind, "") else ""
    for text in (failure.text, sentence, failure.err, failure.out):
        if line := find_reason(text, name):
            return _limit(_strip_addresses(line))
    return _limit(message or failure.kind)


def _whole_message(message: str, text: str) -> str:
    """Return the paragraph of a text that begins with a message that was cut."""
    _, found, rest = text.partition(message.removesuffix("..."))
    paragraph = rest.partition("\n\n")[0].splitlines()
    lines = [line for line in paragraph if not _FRAME.match(line) and not _RUBY_FRAME.search(line)][:_MAX_LINES]
    return (found + "\n".join(lines)).strip() if found else message


def _checked_values(text: str) -> str:
    """Return the check that failed with its values, of the C++ frameworks that write them below each other."""
    if found := _CATCH.search(text) or _DOCTEST.search(text):
        return f"{found['check']}: {' '.join(found['values'].split())}"
    found = _BOOST.search(text) or _BOOST_EXCEPTION.search(text)
    return found["message"] if found else ""


def trace(failure: Failure) -> str:
    """Return the text of the failure, or what the test printed where it has none."""
    return failure.text or failure.err or failure.out


def find_reason(text: str, name: str) -> str:
    """Return the line or few lines of a text that say what went wrong; empty if none does."""
    if not text.strip():
        return ""
    for read in (_pytest_reason, rust_reason, go_reason, _python_reason, _erlang_reason):
        if (line := read(text)) is not None:
            return line
    return _first_reason(text, name)


def has_no_failure_of_its_own(failure: Failure) -> bool:
    """Return true where the test was only running when another ended the process, or was cancelled by its parent."""
    if "cancelledByParent" in failure.kind or _CANCELLED.search(failure.message):
        return True
    return failure.text.startswith("=== RUN") and "--- FAIL" not in failure.text


def says_only_that_a_subtest_failed(failure: Failure) -> bool:
    """Return true for the words of a parent of subtests, which has no reason of its own."""
    if _SUBTESTS_FAILED.fullmatch(failure.message):
        return True
    return failure.text.startswith("=== RUN") and not find_reason(failure.text, "")


def technology_of(failure: Failure, *names: str) -> str | None:
    """Return the technology of the files that a test's names or traces point to; None if they point to none."""
    for name in names:
        if _SOURCE_FILE.fullmatch(name):
            return technology(name)
    for text in (failure.text, failure.message, failure.err, failure.out):
        for place in _PLACE.finditer(text):
            path = (
                text[max(0, place.start() - _PATH_CHARS) : place.end()]
                .rpartition("\n")[2]
                .split("(")[-1]
                .split('"')[-1]
            )
            if not _FOREIGN.search(path):
                return technology(f"file{place[0]}")
    if _BOOST_FILE.search(failure.text):
        return "c++"
    return "go" if failure.text.startswith("=== RUN") else None


def _is_boilerplate(message: str, kind: str) -> bool:
    line = message.strip()
    if "Traceback (most recent call last)" in line:  # the text has it too, in lines
        return True
    return line == kind.strip() or _BOILERPLATE.fullmatch(line) is not None


def _strip_addresses(text: str) -> str:
    return _ADDRESS.sub("0x…", text)


def _limit(text: str) -> str:
    return text.strip()[:_MAX_LINE_CHARS]


def _pytest_reason(text: str) -> str | None:
    found = _PYTEST_LINE.search(text)
    return found[1] if found else None


def rust_reason(text: str) -> str | None:
    """Return the reason of a panic: the lines after its place, up to the stack; None for a text without a panic."""
    found = _PANIC.search(text)
    if found is None:
        return None
    if found["old"]:
        return found["old"]
    lines: list[str] = []
    for line in text[found.end() :].lstrip("\n").splitlines():
        if _PANIC_END.match(line) or len(lines) == _MAX_LINES:
            break
        lines.append(line.strip())
    return "\n".join(lines) or None


def go_reason(text: str) -> str | None:
    """Return what a Go test reported last, its panic, or what an example printed; None for another text."""
    if not text.startswith("=== RUN") and "--- FAIL" not in text and not re.search(r"^FAIL\t", text, re.MULTILINE):
        return None
    if panic := re.search(r"^(panic: .*?)(?: \[recovered.*\])?$", text, re.MULTILINE):
        return panic[1]
    if example := _GO_EXAMPLE.search(text):
        return f'got "{example["got"].strip()}", want "{example["want"].strip()}"'
    if testify := _TESTIFY.search(text):
        return testify[1]
    own = [line for line in text.splitlines() if line.strip() and not _GO_NOISE.match(line)]
    placed = [found[1] for line in own if (found := _GO_PLACE.match(line)) and found[1]]
    if placed or own:
        return placed[-1] if placed else own[0].strip()
    built = re.search(r"^FAIL\t(.*\[.*\])$", text, re.MULTILINE)
    return built[1] if built else ""


def _python_reason(text: str) -> str | None:
    if "Traceback (most recent call last)" not in text:
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines[1:] if _PYTHON_ERROR.match(line)]
    return (errors or lines)[-1].strip()


def _erlang_reason(text: str) -> str | None:
    found = _ERLANG.search(text) if "in function " in text else _ERLANG_CRASH.match(text)
    return " ".join(found["reason"].split()) if found else None


def _first_reason(text: str, name: str) -> str:
    """Return the first paragraph of an error, up to its first stack frame; else the first line that tells something."""
    lines = text.splitlines()
    useful = [
        (number, line.strip())
        for number, line in enumerate(lines)
        if line.strip()
        and not _FRAME.match(line)
        and not _NOISE.match(line.strip())
        and line.strip() != name
        and not line.strip().endswith(f"::{name}")
    ]
    telling = [each for each in useful if _TELLING.search(each[1]) and not _BOILERPLATE.fullmatch(each[1])]
    start = (telling or useful or [(0, "")])[0]
    most = 2 if start[1].endswith(":") else _MAX_LINES
    if most == _MAX_LINES and not re.match(r"(?:Uncaught )?[\w.]*(?:Error|Exception)\b", start[1]):
        return start[1]
    following = [start[1]]
    for line in lines[start[0] + 1 :]:
        if _FRAME.match(line) or len(following) == most:
            break
        if line.strip():
            following.append(line.strip())
    return "\n".join(following)
