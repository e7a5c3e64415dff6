"""Classification of commits: does the message, or the change, say that a failure was mended?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath


class PassedOver(StrEnum):
    """Reasons why a commit teaches nothing."""

    MERGE = "merge"
    REVERT = "revert"
    REVERTED = "reverted later"
    NO_CHANGES = "without changes"
    SHALLOW = "where a shallow clone ends"
    UNFINISHED = "fixup or squash commit"
    VERSION = "version bump or release"
    DOCUMENTATION = "documentation, typos or format only"
    OTHER_WORK = "says that it is other work than a fix"
    NO_FIX = "says of no failure, and no test was changed beside the code"


_TYPE = r"(?:\([^)]*\))?!?:\s"
_OTHER_TYPE = re.compile(
    rf"(?:feat|features?|docs?|style|refactor|tests?|chore|ci|build|deps|release|wip){_TYPE}"
    r"|(?::(?:sparkles|memo|art|recycle|white_check_mark|rotating_light|pencil2|lipstick|construction|tada|truck):"
    r"|[\u2728\U0001f4dd\U0001f3a8\u267b\u2705\U0001f6a8\u270f\U0001f484\U0001f6a7\U0001f389\U0001f69a])",
    re.IGNORECASE,
)
"""Conventional types and gitmoji whose `fix` mends no failure, as in `docs: fix a typo`."""
_REVERT = re.compile(r"(?:revert(?:s|ed|ing)?\b|back(?:ing)?\s+out\b|:rewind:|\u23ea)", re.IGNORECASE)
_UNFINISHED = re.compile(r"(?:fixup|squash|amend)!\s")
_VERSION = re.compile(
    r"(?:(?:\w+(?:\([^)]*\))?!?:\s*)?(?:bump|(?:upgrade|update)s?\s+(?:dependenc(?:y|ies)\b|.{1,80}?\b(?:from\s+\S*\d|to\s+v?\d)))"
    r"|fix\(deps\)!?:|(?:prepare\s+(?:for\s+)?)?release\s+v?\d|(?:version\s+|release\s+)?v?\d+\.\d+(?:\.\d+)?[\w.-]*$"
    r"|:(?:bookmark|arrow_up|arrow_down|pushpin):|[\U0001f516\u2b06\u2b07\U0001f4cc])",
    re.IGNORECASE,
)
_NOT_OF_ITS_OWN = {
    _UNFINISHED: PassedOver.UNFINISHED,
    _REVERT: PassedOver.REVERT,
    _VERSION: PassedOver.VERSION,
}

_FIX_TYPE = re.compile(rf"(?:bug-?fix|bug|hot-?fix|fix){_TYPE}", re.IGNORECASE)
_FIX_MOJI = re.compile(
    r"(?::(?:bug|ambulance|adhesive_bandage|lock|green_heart):"
    r"|\U0001f41b|\U0001f41e|\U0001f691|\U0001fa79|\U0001f512|\U0001f49a)"
)
_FIX_WORDS = re.compile(
    r"\b(?:fix|fix(?:es|ed|ing)|bugs?|bug-?fix(?:es)?|hot-?fix(?:es)?|regressions?|CVE-\d{4}-\d+)\b", re.IGNORECASE
)
_FIX_VERB = re.compile(
    r"(?:[\w./ -]{1,40}:\s+)?(?:correct|repair|resolve|solve|mend|rectif(?:y|ie))(?:s|d|ed|ing)?\b"
    r"(?!\s+(?:(?:merge|git)\s+)?conflicts?\b)|(?:[\w./ -]{1,40}:\s+)?(?:resolving|solving|rectifying)\b"
    r"(?!\s+(?:(?:merge|git)\s+)?conflicts?\b)",
    re.IGNORECASE,
)
"""Verbs that mend at the beginning of a subject; elsewhere `correct` may be an adjective."""
_FIX_ELSEWHERE = re.compile(
    r"\b(?:behebt|behoben|behebe|beheben|behebung|fehlerbehebung|korrigier\w*|korrektur|reparier\w*"  # German
    r"|corrig\w*|correctifs?|correction|r\u00e9par\w*|r\u00e9sout|r\u00e9sol\w*"  # French, Spanish, Portuguese
    r"|corregi\w*|correcci\u00f3n|corre\u00e7\u00e3o|arregl\w*|soluciona\w*|conserta\w*|corregg\w*|corretto|correzione|risol\w*"
    r"|herstel(?:t|d)|verhelpt|verholpen|opgelost|repareer\w*"  # Dutch
    r"|napraw\w*|popraw(?:ia|iono|ka|ki|i\u0142)\w*|oprav\w*"  # Polish, Czech
    r"|d\u00fczelt\w*|giderildi|\u00e5tg\u00e4rda\w*|perbaik\w*)\b"  # Turkish, Swedish, Indonesian
    r"|\b(?:\u0438\u0441\u043f\u0440\u0430\u0432|\u043f\u043e\u0447\u0438\u043d|\u0443\u0441\u0442\u0440\u0430\u043d"
    r"|\u0432\u0438\u043f\u0440\u0430\u0432)\w*"  # Russian, Ukrainian
    r"|\u4fee\u590d|\u4fee\u6b63|\u4fee\u5fa9|\u89e3\u51b3|\u89e3\u6c7a"  # Chinese, Japanese
    r"|\u4e0d\u5177\u5408|\u30d0\u30b0|\uc218\uc815|\ubc84\uadf8|\ud574\uacb0",  # Japanese, Korean
    re.IGNORECASE,
)
_REFERENCE = r"(?:[\w./-]*#\d+|GH-\d+|[A-Z][A-Z0-9]+-\d+|https?://\S+/\d+\b)"
_FIXED_ISSUE = re.compile(
    rf"\bfix(?:es|ed|ing)?(?:\s+(?:issue|bug))?:?\s+(?:{_REFERENCE}|[0-9a-f]{{8,40}} \(\")", re.IGNORECASE
)
_CLOSED_ISSUE = re.compile(
    rf"\b(?:clos(?:es?|ed|ing)|resolv(?:es?|ed|ing))(?:\s+(?:issue|bug))?:?\s+{_REFERENCE}", re.IGNORECASE
)
_COSMETIC = re.compile(
    r"\b(?:typos?|misspell\w*|spelling|grammar|wording|white-?space|indent(?:ation)?|trailing\s+(?:space|comma)s?"
    r"|line\s+endings?|(?:code|coding)\s+style|docstrings?|read-?me|changelog|copyright|license\s+headers?"
    r"|import\s+order|tippfehler|rechtschreib\w*|coquilles?|orthograph\w*|ortograf\w*|faute\s+de\s+frappe|liter\u00f3wk\w*"
    r"|\u043e\u043f\u0435\u0447\u0430\u0442\w*)\b"
    r"|\u9519\u522b\u5b57|\u62fc\u5199|\u8aa4\u5b57|\u30bf\u30a4\u30dd|\uc624\ud0c0"
    r"|\b(?:lint(?:er|ing)?|formatting|format|flake8|ruff|black|prettier|isort|eslint|gofmt|rustfmt|rubocop|docs?"
    r"|documentation|comments?)(?:\s+(?:errors?|warnings?|issues?|nits?|failures?|complaints?))?\s*(?:\(.*\))?\.?$",
    re.IGNORECASE,
)
"""Objects of a fix that mends no failure."""
_FEATURE_VERB = re.compile(
    r"(?:[\w./ -]{1,40}:\s+)?(?:add|implement|introduce|support|create|allow|enable|extend|new|refactor|rename|move"
    r"|extract|clean|simplify|split|merge|document|initial|first|remove|drop|delete|deprecate|expose|provide|offer|test|measure"
    r"|write|record|speed|optimi[sz]e|improve|update|upgrade|reformat|format|reorgani[sz]e|translate|prepare|begin|start"
    r"|build|generate|port|replace|rework|rewrite|show|print|type|annotate)(?:s|es|d|ed|ing)?\b",
    re.IGNORECASE,
)
"""A subject that begins so says what is new, or what is arranged otherwise."""
_SYMPTOM = re.compile(
    r"\b(?:crash\w*|hang(?:s|ing)?|hung|deadlock\w*|dead-lock\w*|leak\w*|fail(?:s|ed|ing|ure|ures)?|broke(?:n)?|breaks?"
    r"|exceptions?|errors?|traceback|segfault\w*|panic\w*|corrupt\w*|wrong(?:ly)?|incorrect(?:ly)?|missing|lost|loses?"
    r"|never|no\s+longer|infinite|overflow\w*|underflow\w*|stale|race|null\s?pointer|NPE|refused?|doubled?|twice"
    r"|unexpected(?:ly)?|invalid|vulnerab\w*|injection|was\s+not|were\s+not|did\s+not|could\s+not|should\s+have)\b",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(r"^[ \t]*[*\u2022-][ \t]+(\S.*)$", re.MULTILINE)
_OWN_WORK = re.compile(r"\b(?:tests?|ci|review|build|lint\w*|nits?)\b", re.IGNORECASE)
"""What a branch mends of itself, as the list of a squash tells."""
_TEST_PATH = re.compile(
    r"(?:^|[/_.-])(?:tests?|specs?|__tests__|testing)(?:[/_.-]|$)|tests?\.\w+$|(?:Test|Spec)\w*\.\w+$"
)
_DOCUMENT_ENDS = (".md", ".rst", ".adoc", ".txt", ".markdown", ".org", ".textile")
_DOCUMENT_NAMES = frozenset({"license", "licence", "copying", "authors", "notice", "changelog", "readme", "codeowners"})
_DATA_ENDS = (".json", ".yaml", ".yml", ".toml", ".lock", ".cfg", ".ini", ".snap", ".svg", ".png", ".csv", ".xml")
_MAX_FILES_BESIDE_A_TEST = 10
"""Code files of a change that tells a symptom, at most; ours: larger ones build something."""
_MAX_FILES_WITHOUT_A_SYMPTOM = 2
"""Code files of a change that tells none, at most; ours."""
_MENDING_VERB = re.compile(
    r"(?:[\w./ -]{1,40}:\s+)?(?:handle|prevent|avoid|guard|treat|tolerate|ignore|stop|do\s+not|don't|ensure|make\s+sure"
    r"|restore|respect|hono(?:u)?r|retry|catch|check|validate|escape|refuse|reject|wait|close|reset|skip|strip|keep)\b",
    re.IGNORECASE,
)


def is_document(path: str) -> bool:
    """Return whether a file is documentation."""
    name = PurePosixPath(path.lower())
    if name.name.startswith("requirements") or name.name == "cmakelists.txt":
        return False
    return (
        name.name.endswith(_DOCUMENT_ENDS)
        or name.stem in _DOCUMENT_NAMES
        or bool({"docs", "doc"} & set(name.parts[:-1]) and not name.name.endswith((".py", ".js", ".ts")))
    )


def is_test(path: str) -> bool:
    """Return whether a file is a test by its name."""
    return _TEST_PATH.search(path) is not None and not is_document(path)


def reason_against(message: str, paths: Iterable[str]) -> PassedOver | None:
    """Return why a commit with this message and these changed files is no fix; None for a fix."""
    subject, files = message.split("\n", 1)[0], list(paths)
    for pattern, reason in _NOT_OF_ITS_OWN.items():
        if pattern.match(subject):
            return reason
    if files and all(map(is_document, files)):
        return PassedOver.DOCUMENTATION
    says_so = _FIXED_ISSUE.search(message) is not None
    if not says_so and _OTHER_TYPE.match(subject):
        return PassedOver.OTHER_WORK
    if _COSMETIC.search(subject):
        return PassedOver.DOCUMENTATION
    return None if says_so or _is_fix_subject(subject) else _reason_without_words(message, subject, files)


def _reason_without_words(message: str, subject: str, files: list[str]) -> PassedOver | None:
    """Return why a commit is no fix whose subject says neither that it is one nor that it is something else."""
    is_feature = _FEATURE_VERB.match(subject) is not None and not _SYMPTOM.search(subject)
    if not is_feature and (_CLOSED_ISSUE.search(message) or _lists_fixes(message) or _is_tested_change(message, files)):
        return None
    return PassedOver.OTHER_WORK if is_feature else PassedOver.NO_FIX


def _is_fix_subject(line: str) -> bool:
    return bool(
        _FIX_TYPE.match(line)
        or _FIX_MOJI.match(line)
        or _FIX_VERB.match(line)
        or _FIX_WORDS.search(line)
        or _FIX_ELSEWHERE.search(line)
    )


def _lists_fixes(message: str) -> bool:
    """Return whether the body is that of a squash, and at least half of its list mends something.

    Items that mend the branch's own lint or tests do not count.
    """
    items = _LIST_ITEM.findall(message.partition("\n")[2])
    fixes = [
        each
        for each in items
        if _is_fix_subject(each)
        and not _OTHER_TYPE.match(each)
        and not _COSMETIC.search(each)
        and not _OWN_WORK.search(each)
    ]
    features = [each for each in items if each not in fixes and (_OTHER_TYPE.match(each) or _FEATURE_VERB.match(each))]
    return bool(fixes) and len(fixes) >= len([each for each in features if not _OWN_WORK.search(each)])


def _is_tested_change(message: str, files: list[str]) -> bool:
    """Return whether a test was changed beside a few files of code; fewer where the message tells no symptom."""
    code = [
        each for each in files if not is_test(each) and not is_document(each) and not each.lower().endswith(_DATA_ENDS)
    ]
    tells = _SYMPTOM.search(message) or _MENDING_VERB.match(message)
    most = _MAX_FILES_BESIDE_A_TEST if tells else _MAX_FILES_WITHOUT_A_SYMPTOM
    return 0 < len(code) <= most and any(map(is_test, files))
