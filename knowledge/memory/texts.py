"""What is embedded of an entry, and what of a query: side by side, so that both sides are alike.

The situation is what happened; the resolution, what worked, is never embedded: a query does not know it. Of a failure's
long error the model reads the gist, on both sides; what is shown, compared and counted word by word is all of it.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

from knowledge.models import (
    AppliesWhen,
    Distilled,
    Entry,
    EntryId,
    EntryType,
    Evidence,
    NewEntry,
    PatternId,
    View,
    Words,
)
from knowledge.search.gist import gist
from knowledge.turns import aside_if_long

_SYSTEM_ERRORS = frozenset(errno.errorcode.values()) | {
    *("EBADENGINE", "EINTEGRITY", "EJSONPARSE", "ELIFECYCLE", "ENEEDAUTH", "ENOTFOUND", "EPEERINVALID", "ERESOLVE"),
    *("ESOCKETTIMEDOUT", "ETARGET", "EUNSUPPORTEDPROTOCOL", "EUSAGE"),
}
"""Codes without a digit: of the system, and of Node's resolver and npm. Other words in capitals (`EMPTY`) are none."""

_NO_CODE = re.compile(
    r"(?:AES|AMD|ARM|ASCII|CP|CUDA|CVE|ES|GMT|ID|IEEE|IPV|ISO|MD|PEP|PR|PY|RFC|RSA|SHA|TLS|UTC|UTF|X)-?\d+|[A-Z]-\d+"
)
"""Names of things in the form of a code: formats, standards, tickets."""


_NAME = re.compile(r"[A-Za-z0-9@][A-Za-z0-9_.+#/@-]{0,39}")
"""The name of a technology or a tool."""

_RANGE = re.compile(r"[<>=!~]{1,3} ?[0-9][0-9A-Za-z.*+!-]{0,30}(?: ?, ?[<>=!~]{1,3} ?[0-9][0-9A-Za-z.*+!-]{0,30}){0,4}")
"""A range of versions; an import may bring any text as one."""

_AN = re.compile(r"(?i:(?!uni(?!n)|us[aeiu]|ut[ei]|u[ix]\b|eu|one\b|once\b)[aeiou])|[FHLMNRSX](?:[A-Z0-9]|\b)")
"""What is spoken with a vowel first."""
_MOST_CONDITIONS = 3
"""Conditions told in a sentence."""


def failure_situation(failure_description: str, error_message: str | None) -> str:
    """Return the situation of a failure, stored or asked: the failure, then the error unless it says that already."""
    if not error_message or error_message.strip() in failure_description:
        return failure_description
    return f"{failure_description}\n{error_message}"


def failure_in_short(failure_description: str, error_message: str | None) -> str:
    """Return the situation of a failure as the model reads it and as it is asked for: of a long error the gist."""
    if not error_message or error_message.strip() in failure_description:
        return failure_description
    return failure_situation(failure_description, gist(error_message))


def situation(entry: NewEntry | Words) -> str:
    """Return what happened: failure + error; proposal + why it was refused; for an approval what was proposed."""
    match entry.entry_type:
        case EntryType.FAILURE_SOLUTION:
            return failure_situation(entry.failure_description or "", entry.error_message)
        case EntryType.GATE_REJECTION:
            return "\n".join(text for text in (entry.proposal, entry.human_feedback) if text)
        case EntryType.GATE_APPROVAL:
            told = entry.proposal or entry.task_description
            return told or f"{entry.gate_type}\n{entry.approved_approach}"


def resolution(entry: NewEntry | Words) -> str:
    """Return what worked: the solution steps, the accepted revision or the approved approach; empty while open."""
    match entry.entry_type:
        case EntryType.FAILURE_SOLUTION:
            return entry.solution_steps or ""
        case EntryType.GATE_REJECTION:
            return entry.revision_approach or ""
        case EntryType.GATE_APPROVAL:
            return entry.approved_approach or ""


def views(entry: NewEntry) -> dict[View, str]:
    """Return the texts by which an entry can be found: its situation and, where another text, its task description."""
    found = {View.SITUATION: situation(entry)}
    task = entry.task_description
    if task and normalise(task) != normalise(found[View.SITUATION]):
        found[View.TASK] = task
    return found


def as_embedded(entry: NewEntry) -> dict[View, str]:
    """Return the texts by which an entry can be found as the model reads them."""
    read = views(entry)
    read[View.SITUATION] = in_short(entry)
    return read


async def all_as_embedded(entries: Sequence[Entry]) -> dict[EntryId, dict[View, str]]:
    """Return the texts of entries as the model reads them; in a thread where they are long: logs may take a second."""

    def read() -> dict[EntryId, dict[View, str]]:
        return {entry.entry_id: as_embedded(entry) for entry in entries}

    return await aside_if_long(sum(len(entry.error_message or "") for entry in entries), read)


def in_short(entry: NewEntry) -> str:
    """Return the situation of an entry as the model reads it, and as a question would put it."""
    if entry.entry_type is EntryType.FAILURE_SOLUTION:
        return failure_in_short(entry.failure_description or "", entry.error_message)
    return situation(entry)


def when_to_try(evidence: Evidence) -> str:
    """Return when a resolution is worth trying, in a sentence: as captured, else by the facts of all its evidence."""
    if evidence.when_to_try:
        return evidence.when_to_try
    facts = evidence.circumstances
    gate = _listed((each.gate_type, each.entries) for each in facts)
    projects = f", as in {evidence.project_count} projects" if evidence.project_count > 1 else ""
    bounds = projects + _only(evidence.conditions)
    match evidence.entry_type:
        case EntryType.FAILURE_SOLUTION:
            kind = _listed((each.task_type, each.entries) for each in facts)
            technology = _listed((each.technology, each.entries) for each in facts)
            error = _listed((_told_error(each.error), each.entries) for each in facts)
            task = f"{_article(kind)} {kind} task" if kind else "a task"
            where = f" in {technology}" if technology else ""
            how = f"with {error}" if error else "in this way"
            return f"When {task}{where} fails {how}{bounds}."
        case EntryType.GATE_REJECTION:
            return f"Before a proposal like this, which was turned down, goes to the {gate} gate{bounds}."
        case EntryType.GATE_APPROVAL:
            return f"When a proposal like this, which passed at once, goes to the {gate} gate{bounds}."


def _article(word: str) -> str:
    return "an" if _AN.match(word) else "a"


def _only(conditions: Collection[AppliesWhen]) -> str:
    """Return the technologies with their versions, and the tools, that entries name as conditions.

    Names alone: a sentence in place of one was written by whoever captured it, and no review looks at it.
    """
    told = {
        f"{name} {version}" if version and _RANGE.fullmatch(version) else name
        for each in conditions
        for name, version in ((each.technology, each.version), (each.tool, None))
        if name and _NAME.fullmatch(name)
    }
    return f"; only with {' or '.join(sorted(told)[:_MOST_CONDITIONS])}" if told else ""


def _told_error(signature: str | None) -> str | None:
    """Return the name or code of an error; None for what only looks like a code."""
    if signature is None or not signature.isupper():
        return signature
    is_code = signature in _SYSTEM_ERRORS if signature.isalpha() else not _NO_CODE.fullmatch(signature)
    return signature if is_code else None


def _listed(told: Iterable[tuple[str | None, int]]) -> str:
    """Return the two values most told, and that there are others; empty where hardly half of the entries tell any."""
    counts: Counter[str] = Counter()
    silent = 0
    for value, entries in told:
        if value is None:
            silent += entries
        else:
            counts[value] += entries
    if silent > counts.total():
        return ""
    often = sorted(counts, key=lambda value: (-counts[value], value))
    return f"{often[0]}, {often[1]} or another" if len(often) > 2 else " or ".join(often)


def model_written(distilled: Distilled) -> str:
    """Return when a model says that a resolution is worth trying, and when it is not; marked as a model's."""
    unless = f" Not: {distilled.when_not_to_try}" if distilled.when_not_to_try else ""
    return f"{distilled.when_to_try}{unless} (model-written)"


def normalise(text: str) -> str:
    """Return a text with runs of white space as one blank and without case."""
    return " ".join(text.split()).casefold()


def pattern_key(pattern_id: PatternId) -> str:
    """Return the key that stands for a pattern itself: bound to another one, where it was joined to that."""
    return sha256(pattern_id.bytes).hexdigest()


def match_key(entry: NewEntry) -> str:
    """Return the key that entries of one pattern share: entry type, situation and resolution, normalised; as sha256."""
    told = "\0".join((entry.entry_type, normalise(situation(entry)), normalise(resolution(entry))))
    return sha256(told.encode()).hexdigest()


def written_key(entry: NewEntry) -> str:
    """Return the key of an entry whose match key belongs to a pattern that puts its resolution otherwise.

    It goes before the match key: a store knows it only where the resolution was found to be another one.
    """
    from knowledge.search.wording import as_written  # noqa: PLC0415 - loads the stemmers, which no client needs

    told = "\0".join((match_key(entry), *as_written(resolution(entry))))
    return sha256(told.encode()).hexdigest()
