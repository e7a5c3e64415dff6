"""Texts of entries and queries as they are embedded: side by side, so that both are built alike.

The situation is what happened. The resolution, what worked, is never embedded: a query does not know it. Of a failure's
long error, and of a description that is a log, the model reads the gist, in entries and queries; shown, compared and
counted is the whole text.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

from hardwon.text.truncation import truncate_middle
from knowledge.models import (
    AppliesWhen,
    DistilledText,
    Entry,
    EntryId,
    EntryTexts,
    EntryType,
    Evidence,
    NewEntry,
    PatternId,
    View,
)
from knowledge.runtime.scheduling import run_in_thread_if_long
from knowledge.text.error_summary import MAX_CHARS, gist, log_start
from knowledge.text.run_output import normal_diff, normal_run, strip_run

_SYSTEM_ERRORS = frozenset(errno.errorcode.values()) | {
    *("EBADENGINE", "EINTEGRITY", "EJSONPARSE", "ELIFECYCLE", "ENEEDAUTH", "ENOTFOUND", "EPEERINVALID", "ERESOLVE"),
    *("ESOCKETTIMEDOUT", "ETARGET", "EUNSUPPORTEDPROTOCOL", "EUSAGE"),
}
"""Codes without a digit: of the system, Node's resolver and npm. Other words in capitals (`EMPTY`) are not codes."""

_NO_CODE = re.compile(
    r"(?:AES|AMD|ARM|ASCII|CP|CUDA|CVE|ES|GMT|ID|IEEE|IPV|ISO|MD|PEP|PR|PY|RFC|RSA|SHA|TLS|UTC|UTF|X)-?\d+|[A-Z]-\d+"
)
"""Names that look like a code: formats, standards, tickets."""


_NAME = re.compile(r"[A-Za-z0-9@][A-Za-z0-9_.+#/@-]{0,39}")
"""The name of a technology or a tool."""

_RANGE = re.compile(r"[<>=!~]{1,3} ?[0-9][0-9A-Za-z.*+!-]{0,30}(?: ?, ?[<>=!~]{1,3} ?[0-9][0-9A-Za-z.*+!-]{0,30}){0,4}")
"""A range of versions; an imported entry may hold any text as one."""

_VOWEL_SOUND = re.compile(r"(?i:(?!uni(?!n)|us[aeiu]|ut[ei]|u[ix]\b|eu|one\b|once\b)[aeiou])|[FHLMNRSX](?:[A-Z0-9]|\b)")
"""Words that begin with a vowel sound."""
_MAX_CONDITIONS = 3
"""Conditions named in a sentence at most."""


def failure_situation(failure_description: str, error_message: str | None) -> str:
    """Return the situation of a failure: its description, then the error unless the description contains it."""
    if not error_message or error_message.strip() in failure_description:
        return failure_description
    return f"{failure_description}\n{error_message}"


def failure_gist(failure_description: str, error_message: str | None) -> str:
    """Return a failure's situation as the model reads it, in entries and queries: with the gist of a long error."""
    if not error_message or error_message.strip() in failure_description:
        return description_gist(failure_description)
    return failure_situation(description_gist(failure_description), gist(normal_run(error_message)))


def description_gist(description: str) -> str:
    """Return a description as the model reads it: of a log what went wrong, below the words before it.

    Any other text is returned as it is.
    """
    description = strip_run(description)
    start = log_start(description)
    if start is None:
        return description
    words = description[:start].strip()
    return f"{truncate_middle(words, MAX_CHARS)}\n{gist(description[start:])}" if words else gist(description)


def situation(entry: NewEntry | EntryTexts) -> str:
    """Return what happened: failure + error; proposal + feedback; for an approval the proposal."""
    match entry.entry_type:
        case EntryType.FAILURE_SOLUTION:
            return failure_situation(entry.failure_description or "", entry.error_message)
        case EntryType.GATE_REJECTION:
            return "\n".join(text for text in (entry.proposal, entry.human_feedback) if text)
        case EntryType.GATE_APPROVAL:
            proposal = entry.proposal or entry.task_description
            return proposal or f"{entry.gate_type}\n{entry.approved_approach}"


def resolution(entry: NewEntry | EntryTexts) -> str:
    """Return what worked: the solution steps, the accepted revision or the approved approach; empty while open."""
    match entry.entry_type:
        case EntryType.FAILURE_SOLUTION:
            return entry.solution_steps or ""
        case EntryType.GATE_REJECTION:
            return entry.revision_approach or ""
        case EntryType.GATE_APPROVAL:
            return entry.approved_approach or ""


def compared_situation(entry: NewEntry | EntryTexts) -> str:
    """Return the situation as it is compared: without what each run and each tool adds of its own."""
    return normal_run(situation(entry))


def compared_resolution(entry: NewEntry | EntryTexts) -> str:
    """Return the resolution as it is compared: a diff without its headers and places."""
    return normal_diff(resolution(entry))


def views(entry: NewEntry | EntryTexts) -> dict[View, str]:
    """Return the texts by which an entry can be found: its situation and its task description, if they differ."""
    texts_by_view = {View.SITUATION: situation(entry)}
    task = entry.task_description
    if task and normalise(task) != normalise(texts_by_view[View.SITUATION]):
        texts_by_view[View.TASK] = task
    return texts_by_view


def as_embedded(entry: NewEntry) -> dict[View, str]:
    """Return the texts by which an entry can be found as the model reads them."""
    return {
        view: situation_gist(entry) if view is View.SITUATION else description_gist(text)
        for view, text in views(entry).items()
    }


async def all_as_embedded(entries: Sequence[Entry]) -> dict[EntryId, dict[View, str]]:
    """Return the texts of entries as the model reads them; in a thread where they are long: logs can take a second."""

    def read() -> dict[EntryId, dict[View, str]]:
        return {entry.entry_id: as_embedded(entry) for entry in entries}

    described = (entry.failure_description if entry.error_message is None else entry.error_message for entry in entries)
    return await run_in_thread_if_long(sum(len(text or "") for text in described), read)


def situation_gist(entry: NewEntry) -> str:
    """Return the situation of an entry as the model reads it."""
    if entry.entry_type is EntryType.FAILURE_SOLUTION:
        return failure_gist(entry.failure_description or "", entry.error_message)
    return situation(entry)


def when_to_try(evidence: Evidence) -> str:
    """Return a sentence on when a resolution is worth trying: as captured, else built from its evidence."""
    if evidence.when_to_try:
        return evidence.when_to_try
    facts = evidence.circumstances
    gate = _join_common((each.gate_type, each.entries) for each in facts)
    projects = f", as in {evidence.project_count} projects" if evidence.project_count > 1 else ""
    bounds = projects + _condition_clause(evidence.conditions)
    match evidence.entry_type:
        case EntryType.FAILURE_SOLUTION:
            kind = _join_common((each.task_type, each.entries) for each in facts)
            technology = _join_common((each.technology, each.entries) for each in facts)
            error = _join_common((_error_name(each.error), each.entries) for each in facts)
            task = f"{_article(kind)} {kind} task" if kind else "a task"
            where = f" in {technology}" if technology else ""
            how = f"with {error}" if error else "in this way"
            return f"When {task}{where} fails {how}{bounds}."
        case EntryType.GATE_REJECTION:
            return f"Before a proposal like this, which was turned down, goes to the {gate} gate{bounds}."
        case EntryType.GATE_APPROVAL:
            return f"When a proposal like this, which passed at once, goes to the {gate} gate{bounds}."


def _article(word: str) -> str:
    return "an" if _VOWEL_SOUND.match(word) else "a"


def _condition_clause(conditions: Collection[AppliesWhen]) -> str:
    """Return the clause that names the technologies, with versions, and tools of conditions; empty without any.

    Only names: a sentence in place of a name is free text that was never reviewed.
    """
    names = {
        f"{name} {version}" if version and _RANGE.fullmatch(version) else name
        for each in conditions
        for name, version in ((each.technology, each.version), (each.tool, None))
        if name and _NAME.fullmatch(name)
    }
    return f"; only with {' or '.join(sorted(names)[:_MAX_CONDITIONS])}" if names else ""


def _error_name(signature: str | None) -> str | None:
    """Return the name or code of an error; None for a name that only looks like a code."""
    if signature is None or not signature.isupper():
        return signature
    is_code = signature in _SYSTEM_ERRORS if signature.isalpha() else not _NO_CODE.fullmatch(signature)
    return signature if is_code else None


def _join_common(values: Iterable[tuple[str | None, int]]) -> str:
    """Join the two most frequent values, noting further ones; empty where most entries have none."""
    counts: Counter[str] = Counter()
    silent = 0
    for value, entries in values:
        if value is None:
            silent += entries
        else:
            counts[value] += entries
    if silent > counts.total():
        return ""
    frequent = sorted(counts, key=lambda value: (-counts[value], value))
    return f"{frequent[0]}, {frequent[1]} or another" if len(frequent) > 2 else " or ".join(frequent)


_COMMAND = re.compile(
    r"(?:\./|/)[\w./-]+(?: .*)?"
    r"|(?:[\w./-]+/)?(?:bash|bats|bazel|bundle|cargo|ctest|curl|deno|docker|dotnet|eslint|git|go|gradle|gradlew|helm|jest|"
    r"just|kubectl|make|mocha|mvn|mvnw|mypy|ninja|node|nox|npm|npx|php|phpunit|pnpm|poetry|pre-commit|psql|pyright|pytest|"
    r"python[\d.]*|rake|rspec|ruff|ruby|sh|swift|terraform|tox|tsc|uv|vitest|yarn)(?: .+)?"
)
"""A command line: a path, or a common runner of tests, builds and checks, with its arguments; ours."""


def verifying_command(words: NewEntry) -> str | None:
    """Return what verified an entry where that is a command on one line, else None."""
    verified_by = words.verified_by
    return verified_by if verified_by and _COMMAND.fullmatch(verified_by) else None


def model_written(distilled: DistilledText) -> str:
    """Return a model's sentence on when a resolution is worth trying and when not, marked as model-written."""
    unless = f" Not: {distilled.when_not_to_try}" if distilled.when_not_to_try else ""
    return f"{distilled.when_to_try}{unless} (model-written)"


def normalise(text: str) -> str:
    """Return a text case-folded, with runs of white space as one space."""
    return " ".join(text.split()).casefold()


def pattern_key(pattern_id: PatternId) -> str:
    """Return the key of a pattern itself; after a merge it is bound to the pattern that absorbed it."""
    return sha256(pattern_id.bytes).hexdigest()


def match_key(entry: NewEntry) -> str:
    """Return the key that entries of one pattern share: entry type, situation and resolution, normalised; as sha256."""
    texts = (compared_situation(entry), compared_resolution(entry))
    content = "\0".join((entry.entry_type, *map(normalise, texts)))
    return sha256(content.encode()).hexdigest()


def wording_key(entry: NewEntry) -> str:
    """Return the key of an entry whose match key belongs to a pattern with a differently written resolution.

    It takes precedence over the match key: a store has it only where the resolutions were found to differ.
    """
    from knowledge.text.profile import as_written  # noqa: PLC0415 - loads the stemmers, which no client needs

    content = "\0".join((match_key(entry), *as_written(compared_resolution(entry))))
    return sha256(content.encode()).hexdigest()
