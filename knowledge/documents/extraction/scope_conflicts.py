"""Reject passages whose heading names another version, date or environment than the question; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from knowledge.documents.parsing.headings import BELOW

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_BARE_YEAR = re.compile(r"(?<![\w.,/-])(?:19|20)\d\d(?![\w/-]|[.,]\d)")
_DATES: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?<![\d.-]){_YEAR}-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>\d\d))?(?![\d.-])",
        rf"\b(?:{_DAY}\.?\s+(?:of\s+)?)?{_MONTH},?\s+{_YEAR}\b",
        rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b",
    )
)
_VERSION = re.compile(
    r"(?<![\w.-])v?(\d{1,4}(?:(?:\.\d{1,4}){1,3}|(?:\.\d{1,4}){0,2}(?=\.[x*](?!\w))))(?:\.[x*])?(?![\w%-]|\.\d)",
    re.IGNORECASE,
)
_MAJOR = re.compile(r"(?<![\w.-])(v)?(\d{1,3})(?![\w%-]|[.,]\d|\.[x*])", re.IGNORECASE)
"""A number without a point: a version behind "v" or "version", or behind the name of what has versions."""
_OF_A_FILE = re.compile(r"(?<=[^\W\d_])[-_](?=v?\d{1,4}\.\d)", re.IGNORECASE)
"""What parts a name from its version without a blank, as in `pump-2.1.md`."""
_SECTION_NUMBER = re.compile(r"^\d+(?:\.\d+)+\.?\s+(?=[^\W\d_])", re.MULTILINE)
_WORD_BEFORE = re.compile(r"([^\W_]{1,40})[\s(]{1,40}\Z")
_LONGEST_WORD = 40
_NO_NAMES = (
    "version versions release releases in of to with for from on at by is are was were do does did has have had can"
    " and or the our a v"
)
_OF_NOTHING_ELSE = frozenset(_NO_NAMES.split())
"""Words before a version that do not say of what it is one: that is what the documents are about, then."""
_MARKS = frozenset({"version", "versions"})
_COUNTED = (
    "appendix article batch building case chapter class day example exercise exhibit figure floor gate group hall item"
    " layer lesson level line list module no note number option page paragraph part phase plan point question room"
    " round row rule section set slide stage step system table task team test tier type unit volume week year zone"
)
_PARTS = frozenset(_COUNTED.split())
"""Words before a number, though with a capital, that count parts and not versions."""
_RANGE = re.compile(
    r"\b(?:since|after|before|until|till|between|newer|older|later|earlier|than|up to|through|from\s+v?\d)\b",
    re.IGNORECASE,
)


_APART: Final = """
monday; tuesday; wednesday; thursday; friday; saturday; sunday
production prod; staging; development dev; sandbox
linux; windows; macos
primary; secondary; tertiary
inbound incoming; outbound outgoing
ingress; egress
upload uploading uploaded; download downloading downloaded
"""
"""Words of which one excludes the others, those that say the same together: days, environments, systems, sides."""
_HEADINGS_ALONE: Final = frozenset({"monday", "linux"})
"""Groups of which a sentence may name one and still answer for another: it runs on Linux, so not on Windows."""
_EXCLUDING: Final = tuple(
    {word: number for number, same in enumerate(group.split(";")) for word in same.split()}
    for group in _APART.strip().splitlines()
)
_LETTERS = re.compile(r"[a-z]+")
_WORDS = re.compile(r"[^\W_]+")
_CHANGES: Final = """
added new additions features; fixed fixes bugs bugfixes; removed removals; deprecated deprecations; changed changes
"""
_KINDS: Final = {word: number for number, same in enumerate(_CHANGES.split(";")) for word in same.split()}
"""The headings below which a list of changes parts them by kind, by what each says."""
_CHANGES_ASKED = re.compile(
    r"\b(?:what|which(?:\s+[\w-]+){1,3}?)\s+(?:else\s+)?(?:is|are|was|were|got|(?:has|have)\s+been)\s+(?:newly\s+)?"
    r"(added|fixed|removed|deprecated)\b",
    re.IGNORECASE,
)
_LEAST: Final = r"(?i:minimum|minimal|min|lowest|smallest|shortest{0})"
_MOST: Final = r"(?i:maximum|maximal|max|highest|largest|longest{0})"
_ENDS = re.compile(
    rf"(?P<least>(?<![^\W\d_]){_LEAST.format('|at[ ]least')}(?![a-z])|(?<=[a-z])Min(?![a-z]))"
    rf"|(?P<most>(?<![^\W\d_]){_MOST.format('|at[ ]most')}(?![a-z])|(?<=[a-z])Max(?![a-z]))"
)
_ALSO_LEAST = re.compile(r"\b(?:at least|no less|not less|more than|above|over|from)\b", re.IGNORECASE)
_ALSO_MOST = re.compile(r"\b(?:most|no more|not more|up to|until|less than|below|under|exceed\w*)\b", re.IGNORECASE)
_BOTH_TOLD = re.compile(r"\b(?:between|from)\b|\d\s*(?:-|\u2013|to)\s*\d", re.IGNORECASE)


class _Date(NamedTuple):
    year: int
    month: int
    day: int | None


def contradicts_question(question: str, above: str, text: str) -> bool:
    """Return whether the headings above a text name only other versions, days, years or places than the question.

    Not if the question asks for a range, or if the text itself names the requested one: "Python 3.11" is not a version
    of another product. A month, or 2.1, includes each of its days, or 2.1.4. Also true if the question asks for one
    kind of change and the text is in a list of another, or asks for a maximum and the text states a minimum.
    """
    if _of_other_changes(question, above, text) or _of_the_other_end(question, text):
        return True
    return not _RANGE.search(question) and (
        _of_other_versions(question, above, text)
        or _of_other_dates(question, above, text)
        or _of_other_years(question, above, text)
        or _of_others(question, above, text)
    )


def names_version_or_date(heading: str) -> bool:
    """Return whether a heading names a version or a day, to which the text below it belongs."""
    return (
        next(_versions(_SECTION_NUMBER.sub("", heading)), None) is not None or next(_dates(heading), None) is not None
    )


def names_version_and_date(heading: str) -> bool:
    """Return whether a heading names a version and its day."""
    return (
        next(_versions(_SECTION_NUMBER.sub("", heading)), None) is not None and next(_dates(heading), None) is not None
    )


def _of_others(question: str, above: str, text: str) -> bool:
    """Return whether a text is of one of several words that exclude each other, and another one is asked for."""
    asked, told, named = (_words_of(each) for each in (question, above, text))
    for group in _EXCLUDING:
        wanted = {group[word] for word in asked if word in group}
        held = {group[word] for word in told if word in group}
        own = {group[word] for word in named if word in group}
        if wanted and not wanted & (held | own) and (held or (own and not _HEADINGS_ALONE & group.keys())):
            return True
    return False


def _words_of(text: str) -> set[str]:
    words = set(_LETTERS.findall(text.lower()))
    return words | {word.removesuffix("s") for word in words}


def _of_other_changes(question: str, above: str, text: str) -> bool:
    """Return whether a text stands in a list of changes of another kind than a question asks for."""
    asked = _CHANGES_ASKED.search(question)
    path = above.rpartition("\n")[2].split(BELOW)
    if asked is None or not any(map(names_version_or_date, path[:-1])):
        return False
    of = {_KINDS[word] for word in _LETTERS.findall(path[-1].lower()) if word in _KINDS}
    return bool(of) and _KINDS[asked[1].lower()] not in of and asked[1].lower() not in _LETTERS.findall(text.lower())


def _of_the_other_end(question: str, text: str) -> bool:
    """Return whether a question asks for the most of something and a text tells its least alone, or the reverse."""
    asked, named = ({found.lastgroup for found in _ENDS.finditer(each)} for each in (question, text))
    if len(asked) != 1 or _BOTH_TOLD.search(text) or not named or named & asked:
        return False
    also = _ALSO_MOST if "most" in asked else _ALSO_LEAST
    return also.search(text) is None


def _of_other_years(question: str, above: str, text: str) -> bool:
    """Return whether a year stands above a text, and another one is asked for that it does not name itself."""
    told, asked = set(_BARE_YEAR.findall(above)), set(_BARE_YEAR.findall(question))
    return bool(told and asked) and not asked & (told | set(_BARE_YEAR.findall(text)))


def _of_other_versions(question: str, above: str, text: str) -> bool:
    names = _SECTION_NUMBER.sub("", above)
    known = _names_of_versions(question, names)
    told = [version for _, version in _versions(names, known)]
    if not told:
        return False
    asked = [
        (word.lower(), version)
        for word, version in _versions(question, known)
        if word.lower() in _OF_NOTHING_ELSE or word.lower() in names.lower()
    ]
    named = {word for word, _ in asked}
    told += [
        version
        for word, version in _versions(text, known)
        if not word.istitle() or word.lower() in named or word.lower() in names.lower()
    ]
    return bool(asked) and not any(_same_version(one, other) for _, one in asked for other in told)


def _names_of_versions(question: str, above: str) -> frozenset[str]:
    """Return the words, in lower case, behind which a number without a point is a version, too.

    They stand before a version in either text, or with a capital before such numbers in both, or name in the title
    what the versions below it are of.
    """
    sure = {word.lower() for text in (question, above) for word, _ in _versions(text)} - _OF_NOTHING_ELSE
    capital = {word.lower() for word, _, _ in _majors(question) if word[:1].isupper()}
    both = capital & {word.lower() for word, _, _ in _majors(above)}
    title, _, path = above.partition("\n")
    if any(word.lower() in _OF_NOTHING_ELSE | {""} for word, _ in _versions(path)):
        sure |= {word.lower() for word, _, _ in _majors(question)} & set(_WORDS.findall(title.lower()))
    return frozenset((sure | (both - _OF_NOTHING_ELSE)) - _PARTS - {""} - _OF_NOTHING_ELSE)


def _of_other_dates(question: str, above: str, text: str) -> bool:
    told = list(_dates(above))
    asked = list(_dates(question)) if told else []
    if not any(other.day is not None or one.day is None for one in asked for other in told):
        return False
    return not any(_same_date(one, other) for one in asked for other in (*told, *_dates(text)))


def _versions(text: str, names: frozenset[str] = frozenset()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the versions in a text, each with the word before it; `2.x` is 2.

    `names`: words, in lower case, behind which a number without a point is one.
    """
    parted = _OF_A_FILE.sub(" ", text)
    for found in _VERSION.finditer(parted):
        yield _word_before(parted, found.start()), tuple(found[1].split("."))
    for word, number, marked in _majors(parted):
        if marked or word.lower() in names:
            yield word, (number,)


def _majors(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the numbers without a point, each with the word before it, and whether it is said to be a version."""
    for found in _MAJOR.finditer(text):
        word = _word_before(text, found.start())
        yield word, found[2], bool(found[1]) or word.lower() in _MARKS


def _word_before(text: str, at: int) -> str:
    before = _WORD_BEFORE.search(text[max(0, at - _LONGEST_WORD) : at])
    return before[1] if before else ""


def _dates(text: str) -> Iterator[_Date]:
    for form in _DATES:
        for found in form.finditer(text):
            month, day = found["month"].lower(), found["day"]
            number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
            yield _Date(int(found["year"]), number, int(day) if day else None)


def _same_version(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def _same_date(one: _Date, other: _Date) -> bool:
    return one[:2] == other[:2] and (one.day is None or other.day is None or one.day == other.day)
