"""Errors and warnings that a question asks for in plain words: "What errors are in app.log?"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from knowledge.documents.log_lines import severity_named
from knowledge.documents.models import Severity

_NAMED = re.compile(
    r"(?i)((?:\b[\w-]{1,60}\s{1,9}){0,3})(?<![\w./-])(error|warning)s?(?![\w/-]|\.\w)"
    r"(?!\s{1,9}(?:handl(?:ers?|ing)|codes?|pages?|middlewares?|boundar(?:y|ies)|queues?)\b)"
    r"(?!(?<!s)\s{1,9}(?:messages?\s{1,9})?(?:\"|(?-i:[A-Z]{2,})[-_]?\d{2}))"
)
"""Neither a part of a name, as in error-handler, nor what says of a code or a quoted text what it is."""
_QUOTED = re.compile(r"\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`")
_LEVEL = re.compile(r"(?i)\b(?:severity|level)\s*(?:=|:|is|of)?\s*\Z")
_SOUGHT = re.compile(
    r"(?i)\b(?:what|which|any|all|every|each|list|show)\b[^?!]{0,60}\b(?:errors|warnings)\b"
    r"|\b(?:errors|warnings)\s+(?:(?:are|were|is|was|there|found)\s+){0,2}(?:in|from|of)\b"
)
_IN_GENERAL = re.compile(
    r"(?i)\b(?:can|could|may|might|should|would|why|how\s+(?:do|does|can|to)"
    r"|(?:mean|return|throw|rais|caus|fix|handl|avoid|prevent|solv)\w*)\b"
)
"""Asks what errors are like, and not which ones a log has."""
_MEANT: Final = {"error": (Severity.ERROR, Severity.CRITICAL), "warning": (Severity.WARN,)}
_NO_TOPIC: Final = re.compile(
    r"(?i)what(?:'s)?|which|any|all|every|each|list|show|me|the|an?|of|did|do(?:es)?|first|last|and|or|many|how|when|are"
    r"|were|is|was|there|in|ha(?:ve|s|d)|with|for|from|to|number|count|total|th(?:e|o)se|such|our|my|its|latest|earliest"
    r"|common|most|recent|different|distinct|other|th(?:is|at)|it|found|timestamps?|timeline|times?"
    r"|logs?|frequent|main|new|unique|various|serious|severe|worst|top|actual|some|more|tell|give|find|see|get|about"
    r"|\d{1,2}|summar\w*|overview|start(?:s|ed)?|beg[aiu]n|begins|stop(?:s|ped)?|end(?:s|ed)?|(?:happen|occur|appear)\w*"
)
_OF = re.compile(
    r"(?i)\s{1,9}(?:(?:are|were|is|was|there|found|come|came)\s{1,9}){0,2}(?:of|from|in|about|concerning|regarding)"
    r"(?:\s{1,9}(?:the|an?|all|any|each|every|both|th(?:is|at|ese|ose)|our|my|its)){0,3}(?=\s)"
)
_WORD = re.compile(r"\s{1,9}([\w'\u2019./-]*[\w/])")
_LOG = re.compile(r"(?i)logs?|logfiles?|entries|entry")
_WORST: Final = frozenset({"critical", "fatal"})
_FAILED: Final = re.compile(r"(?i)fail(?:ed|ing|s|ures?)?")
_NO_MORE = re.compile(
    r"(?i)\d.*|today|yesterday|(?:second|minute|hour|day|week|month|year|night)s?|morning|general|files?|at|on|by|per"
)
_LOG_MEANT = re.compile(
    r"(?i)(?<![\w.-])(?:logs?|entries)\b"
    r"|\b(?:endpoint|path|route|url|request)s?\s+(?:ha(?:ve|s|d)|with|show(?:s|ed)?|got)\s+(?:[\w-]+\s+){0,3}"
    r"(?:error|warning)s?\b"
    r"|\b(?:how\s+many|number\s+of)\s+lines\b"
)
"""Says so, counts lines, or asks which paths have errors: what is had there stands in a log."""
_MOST_WORDS: Final = 3
_MOST_SPOKEN: Final = 5
_NOT_COUNTED: Final = re.compile(
    r"(?i)(?:request|line|event|message|response|record|row|error|warning|status|code|hit|call|case|occasion|time)s?"
    r"|statuses|entries|entry|logs?|logged|logfiles?|files?|came|come|comes|made|make|makes|between|since|until|till"
    r"|(?:return|contain|mention|hold|name|record|writ|report|show|look|receiv|exist|severit|level|kind|type|sort|minute"
    r"|hour|day|second|belong|relat)\w*|before|after|during|through|by|on|at|as|per|into|over|under|utc|[ap]m|be|been"
    r"|being|because|due|often|so|no|not|any(?:thing|where)?|one|ones|they|them|their|you|i|we|us|can|could|will|would"
    r"|should|than|according|both|together|combined|long|much|overall|altogether|whole|entire|full|\w"
    r"|and/or|sa(?:y|ys|id)|please|know|want|need|like|go|goes|went|gone|wrong|caus\w*|seen|visible|present|available"
    r"|encountered|thrown|raised|generated|emitted|produced|listed|displayed|whether|if|while|where|who|whose|why"
    r"|within|up|out|just|only|also|too|still|ever|already|now|far|else|exactly|precisely|between|precise|cause|yet"
    r"|line|here|inside|across|against|contents?|detail\w*|information|exact"
)
"""Words that say that something is counted, and not what."""
_SPOKEN: Final = re.compile(r"\w(?:[\w.:@/-]*\w)?")
MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d\S*|\d{1,2}:\d\d\S*")
_EXACT: Final = re.compile(
    r"(?=\D{0,60}\d)[\w.:@/-]{1,100}|[A-Z]{3,60}|[^\W_]{0,60}_\w{0,100}|[A-Za-z]{0,30}[a-z][A-Z]\w{0,60}"
    r"|[\w.-]{1,60}[@.:][\w.-]{1,60}"
)
"""A number, an address, a file, a word with a digit or in capitals, a name of code."""
_PLURAL: Final = re.compile(
    r"(\w{1,40}(?:ss|sh|ch|x))es|(?!(?:cook|mov|zomb|ser|spec)ies)(\w{1,40}[^\Waeiou])ies|(\w{3,40}[^\Ws])s"
)
_STATUSES: Final = re.compile(r"([1-5](?:\d\d|xx))(?:s|es)?", re.IGNORECASE)
_LOGGED: Final = re.compile(
    r"(?i)\b(logged (?:in|out))\b(?!\s+(?:the\s+)?(?:[\w-]+\s+){0,2}(?:logs?|files?)\b|\s+[\w/-]*[./]\w)"
)
"""Not of what is logged in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The words that say of what lines are counted: names and numbers, which lines hold as they stand, and others."""

    exact: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def spoken(question: str, left_out: Collection[str]) -> Spoken:
    """Return what lines a question counts, as in "how many came from 10.0.0.5"; `left_out`: in small letters."""
    logged = [each.lower() for each in _LOGGED.findall(question)]
    told = MOMENT.sub(" ", _LOGGED.sub(" ", question))
    found = [each for each in _SPOKEN.findall(told) if each.lower() not in left_out and severity_named(each) is None]
    exact = [each for each in found if _EXACT.fullmatch(each)]
    words = [each for each in found if each not in exact and not _NO_TOPIC.fullmatch(each)]
    words = [*(_singular(each) for each in words if not _NOT_COUNTED.fullmatch(each)), *logged]
    exact = [status[1].lower() if (status := _STATUSES.fullmatch(each)) else each for each in exact]
    return Spoken(exact=tuple(dict.fromkeys(exact)), words=tuple(dict.fromkeys(words))[:_MOST_SPOKEN])


def _singular(word: str) -> str:
    """Return a word as lines tell of one: of queries it is query."""
    many = _PLURAL.fullmatch(word)
    if many is None:
        return word
    return f"{many[2]}y" if many[2] else many[1] or many[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainWords:
    """The severities that are meant, and the words that say what the entries are about: "payment errors [of the shop]".

    `sought`: it asks which there are, and not only when or how many. `alone`: it speaks of nothing else.
    """

    severities: tuple[Severity, ...]
    topic: tuple[str, ...]
    sought: bool
    alone: bool

    def in_a_log(self, counts: Mapping[str, int]) -> tuple[tuple[Severity, ...], tuple[str, ...]]:
        """Return which of the severities a log has, or the first, and the topic; `counts`: its lines of each severity.

        Critical and fatal errors are those of that severity where it has any, else those that say so.
        """
        held = tuple(each for each in self.severities if counts.get(each))
        rest = tuple(word for word in self.topic if word.lower() not in _WORST)
        if rest != self.topic and Severity.CRITICAL in held:
            return tuple(each for each in held if each is not Severity.ERROR), rest
        return held or self.severities[:1], self.topic


def in_plain_words(question: str, files: Collection[str] = ()) -> tuple[PlainWords, ...]:
    """Return what a question asks of errors and of warnings, none where it names neither; a quoted word names none.

    Those of the same are one, as in "errors and warnings of the shop". `files` are looked into and are no topic: names
    in small letters.
    """
    question = unquoted(question)
    sought = _SOUGHT.search(question) is not None and _IN_GENERAL.search(question) is None
    others = _WORD.findall(" " + _NAMED.sub(r"\1", question))
    alone = all(_NO_TOPIC.fullmatch(word) for word in others)
    told: list[PlainWords] = []
    end = 0
    for found in _NAMED.finditer(question):
        topic: list[str] = []
        for word in found[1].split():
            topic = [] if _NO_TOPIC.fullmatch(word) else [*topic, word]
        named = found[2] if found[2].isupper() else "".join(topic[-1:])
        if (named.isupper() and severity_named(named)) or _LEVEL.search(question, 0, found.start(2)):
            continue  # the severity of this name, and no other
        between = question[end : found.start(2)].split()
        joined = told and all(_NO_TOPIC.fullmatch(word.strip(",&")) for word in between if word.strip(",&"))
        topic += _of_what(question, found.end(), files)
        meant = _MEANT[found[2].lower()]
        if joined:
            of = told.pop()
            meant, topic = (*of.severities, *meant), [*of.topic, *topic]
        told.append(
            PlainWords(
                severities=tuple(dict.fromkeys(meant)), topic=tuple(dict.fromkeys(topic)), sought=sought, alone=alone
            )
        )
        end = found.end()
    return tuple(told)


def unquoted(question: str) -> str:
    """Return a question of the same length without the words that it quotes."""
    return _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), question)


def says_failed(word: str) -> bool:
    """Return whether a word says that something failed: lines may say so by their severity alone."""
    return _FAILED.fullmatch(word) is not None


def speaks_of_logs(question: str) -> bool:
    """Return whether a question is about a log, its entries or the paths in it; names of files are none of these."""
    return _LOG_MEANT.search(question) is not None


def _of_what(question: str, at: int, files: Collection[str]) -> list[str]:
    """Return the words that say of what the errors named before are, as in "errors in app.log from the payment api".

    A log is no such word: it is where they are looked for.
    """
    topic: list[str] = []
    while of := _OF.match(question, at):
        at, words = of.end(), list[str]()
        while word := _WORD.match(question, at):
            if _LOG.fullmatch(word[1]) or word[1].lower() in files:
                at, words = word.end(), []
                break
            if _NO_TOPIC.fullmatch(word[1]) or _NO_MORE.fullmatch(word[1]):
                break
            at, words = word.end(), [*words, word[1]]
        topic += words[:_MOST_WORDS]
    return topic
