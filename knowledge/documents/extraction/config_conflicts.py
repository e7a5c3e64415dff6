"""Reject configuration lines that set something else than the question asks for; pure.

A configuration names all that it sets: where it has the CPU of one thing, the memory of another is no answer for it.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from knowledge.documents.extraction.question_terms import Question
from knowledge.documents.parsing.headings import BELOW
from knowledge.documents.segmentation.config_lines import setting_in
from knowledge.text.bm25 import term_counts, words_and_wholes

_PLACES: Final = frozenset({"env", "environment", "namespace", "stage", "profile", "cluster"})
"""Settings that say where all of a configuration holds."""
_WORDS: Final = re.compile(r"[^\W\d_][\w-]*")
_LEAST_MEMBERS: Final = 2
_UNNAMING: Final = (
    "a an the this that these those each every all any both some no which what whose our your their its my of"
    " in for per default first second third last same other another new old main whole single current next"
    " previous one two three is are does do has have how many much to and or on at by with from maximum minimum"
    " max min"
)
_OF_NO_NAME: Final = frozenset(_UNNAMING.split())
"""Words before the name of a group that name none of its members."""


class Settings:
    """Settings in the found lines of one configuration, each with its sections."""

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        """Read the lines."""
        told = list(lines)
        self._named = {line: _name(line) for line in told}
        self._names = term_counts("\n".join(self._named.values()))
        self._all = term_counts("\n".join([title, *told]))
        self._title = term_counts(title)
        self._groups: dict[str, set[str]] = defaultdict(set)
        for line in told:
            steps = [part for step in line.split(BELOW)[:-1] for part in step.split(".")]
            for one, two in itertools.pairwise(steps):
                self._groups[one.lower()].add(two)
        values = [(name.lower(), value.strip("\"' ,")) for name, value in map(_set, told)]
        self._kinds = {value.lower() for name, value in values if name == "kind"}
        self.places = " ".join(value for name, value in values if name in _PLACES)

    def another(self, line: str, question: Question) -> bool:
        """Return whether a line sets what is not asked for, and what is asked for is set elsewhere, or is not there."""
        return self._sets_another(line, question) or self._of_no_member(line, question)

    def _sets_another(self, line: str, question: Question) -> bool:
        name = term_counts(self._named[line])
        if not _set(line)[0] or any(question.matches_term(name, term) for term in question.rarity):
            return False
        told = term_counts(line) | self._title
        missing = [term for term in question.rarity if not question.matches_term(told, term)]
        return any(question.matches_term(self._names, term) for term in missing)

    def _of_no_member(self, line: str, question: Question) -> bool:
        """Return whether a question names a member that a group does not have, and the line is of that group."""
        words = _WORDS.findall(question.text)
        path = {part.lower() for step in line.split(BELOW)[:-1] for part in step.split(".")}
        for member, group in itertools.pairwise(words):
            kinds = {group.lower(), f"{group.lower()}s", group.lower().removesuffix("s")}
            of = any(len(self._groups[kind]) >= _LEAST_MEMBERS for kind in kinds & path & self._groups.keys())
            named = member.lower() not in _OF_NO_NAME and words_and_wholes(member)[0]
            if named and (of or kinds & self._kinds):
                terms = [term for term in term_counts(member) if term in question.rarity]
                if terms and not any(question.matches_term(self._all, term) for term in terms):
                    return True
        return False


def _set(line: str) -> tuple[str, str]:
    return setting_in(line.rpartition(BELOW)[2]) or ("", "")


def _name(line: str) -> str:
    """Return the name of what a line sets; of a value that stands below it, that is the section's."""
    name = _set(line)[0]
    return line if name.lower() in {"", "value", "default", "name"} else name
