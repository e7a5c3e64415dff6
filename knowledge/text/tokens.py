"""Tokenizer for words, names, numbers, versions, codes and operators, classified by form and context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?=[\w#=!<>+*/%&|^~-])(?:"
    r"(?P<plain>[^\W\d]++(?![\w#'\u2019-]))"
    r"|(?P<code>\b(?:[A-Z]{1,6}\d{2,6}|[A-Za-z]{2,12}[-#]\d[\w-]*)\b|(?<!\w)#\d+)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<version>\bv?\d+(?:\.\d+){2,}(?:[\w.+-]*\w)?|\bv\d+(?:\.\d+)*\b)"
    r"|(?P<number>(?<![\w)\]])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*)"
    r"|(?P<word>[^\W\d](?:\w|['\u2019](?=t\b))*)"
    r"|(?P<sign>[=!<>+*/%&|^-]?=|[<>]|&&|\|\||(?<=[`\"'\s])[-+*/%&|^~!]{1,2}(?=[`\"'\s])))"
)
"""The lookahead on a token's first character and the plain words come first for speed; they change no result."""
_TOKEN_TEXT = re.compile(re.sub(r"\?P<\w+>", "?:", _TOKEN.pattern))
"""The same tokens without named groups: twice as fast."""
_WORD_KINDS = frozenset({"plain", "word"})
_QUOTED = re.compile(r"(?<!\w)([`\"'])(?=\S)([^`\"'\n]{1,120}?)(?<=\S)\1(?!\w)")
_CODE_LIKE = re.compile(r"[\[\](){}=<>|.:/_]")
_MAX_QUOTED_WORDS = 3
_SPECIAL = re.compile(r"_|\d|[a-z][A-Z]|^[A-Z]{2}")
_EXCEPTION = re.compile(r"^(?:[A-Z]\w+(?:Error|Exception|Warning|Failure|Fault|Interrupt|Exit|Timeout)|SIG[A-Z]{3,5})$")
_JOINED = frozenset("./\\:@$-")


_OPPOSITE_PAIRS = (
    "enable/disable enabled/disabled enables/disables enabling/disabling allow/deny allowed/denied allow/forbid"
    " accept/reject accepted/rejected accepts/rejects succeed/fail succeeds/fails succeeded/failed pass/fail"
    " passes/fails passed/failed true/false on/off up/down before/after above/below over/under more/less more/fewer"
    " greater/less higher/lower maximum/minimum max/min first/last left/right upper/lower open/close opens/closes"
    " opened/closed start/stop starts/stops started/stopped add/remove adds/removes added/removed include/exclude"
    " includes/excludes included/excluded increase/decrease increases/decreases increased/decreased always/never"
    " with/without valid/invalid present/missing available/unavailable required/optional read/write reads/writes"
    " encode/decode encrypt/decrypt lock/unlock push/pull upload/download client/server source/target"
    " ascending/descending synchronous/asynchronous public/private input/output request/response local/remote"
    " internal/external primary/secondary parent/child row/column horizontal/vertical import/export send/receive"
    " sends/receives incoming/outgoing begin/end create/delete creates/deletes created/deleted insert/delete"
    " install/uninstall commit/rollback mount/unmount login/logout connect/disconnect attach/detach"
    " subscribe/unsubscribe plaintext/encrypted empty/full static/dynamic global/local"
)
_MEASURES = (
    "one two three four five six seven eight nine ten hundred thousand million half third quarter second seconds minute"
    " minutes hour hours day days week weeks month months year years daily weekly monthly hourly ms bytes kb mb gb tb"
    " kib mib gib monday tuesday wednesday thursday friday saturday sunday january february march april june july"
    " august september october november december"
)
_NEGATIONS = (
    "not no never none nothing neither nor without cannot isn't aren't wasn't weren't don't doesn't didn't can't won't"
    " wouldn't shouldn't couldn't hasn't haven't hadn't mustn't"
)
_FOREIGN_NEGATIONS = (
    "nicht nichts nie niemals kein keine keinen keinem keiner keines ohne niet geen nooit zonder inte ikke ikkje aldrig"
    " aldri utan uden uten ne pas jamais sans aucun aucune rien no nunca sin nada tampoco ningún ninguna non mai senza"
    " nessun nessuna não nem sem nenhum nenhuma nie nigdy bez żaden не ни нет никогда без нельзя ні немає değil"
)
_SMALL_WORDS = (
    "a an the is are was were be been being has have had do does did of to in on at for by from with and or as that"
    " this these those it its there then so s can could will would may might should"
)

_OPPOSED = tuple(pair.split("/") for pair in _OPPOSITE_PAIRS.split())
OPPOSITES: Mapping[str, frozenset[str]] = {
    word: frozenset(other for pair in _OPPOSED if word in pair for other in pair) - {word}
    for pair in _OPPOSED
    for word in pair
}
"""Antonyms of words, which reverse the meaning of a sentence; our own list."""

_NEGATION_SPELLINGS = (_NEGATIONS, _NEGATIONS.replace("'", "\u2019"), _NEGATIONS.replace("'", ""), _FOREIGN_NEGATIONS)
NEGATIONS = frozenset(" ".join(_NEGATION_SPELLINGS).split())
"""Words that negate their sentence."""

TURNS = NEGATIONS | OPPOSITES.keys()
"""Words that reverse the meaning of a sentence."""

MEASURES = frozenset(_MEASURES.split())
"""Numbers, units, days and months, of which none stands for another."""

_MEANINGFUL = TURNS | MEASURES

GLUE = frozenset(_SMALL_WORDS.split())
"""Function words, which do not distinguish texts."""


class Token(NamedTuple):
    """A token, case-folded and as written. `particular`: by its form or meaning; `may_be_rare`: else by its rarity."""

    kind: str
    word: str
    written: str
    named: bool
    particular: bool
    may_be_rare: bool


def token_texts(text: str) -> list[str]:
    """Return the tokens of a text in order, as written."""
    return _TOKEN_TEXT.findall(text)


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in order."""
    spans = _code_spans(text)
    span = next(spans, None)
    for match in _TOKEN.finditer(text):
        begin, end = match.span()
        while span and span[1] <= begin:
            span = next(spans, None)
        inside = span is not None and span[0] <= begin
        kind, word = match.lastgroup or "", match.group()
        if kind in _WORD_KINDS:
            form = _form(word)
            joined = not form.named and ((inside and not form.glue) or _is_joined(text, begin, end, form))
            yield form.joined if joined else form.alone
        else:
            particular = kind != "sign" or inside or len(word) > 1
            yield Token(kind, word.casefold(), word, kind == "code", particular, may_be_rare=False)


class _Form(NamedTuple):
    """Properties of a word in any context. `named`: a name by its form. `alone`, `joined`: the token it yields."""

    named: bool
    glue: bool
    capital: bool
    alone: Token
    joined: Token


@lru_cache(maxsize=1 << 15)
def _form(word: str) -> _Form:
    folded = word.casefold()
    exception = _EXCEPTION.match(word) is not None
    kind = "exception" if exception else "word"
    named, glue = exception or _SPECIAL.search(word) is not None, folded in GLUE
    meaningful = folded in _MEANINGFUL  # particular by its meaning
    return _Form(
        named=named,
        glue=glue,
        capital=word[0].isupper(),
        alone=Token(kind, folded, word, named, named or meaningful, not glue),
        joined=Token(kind, folded, word, named=True, particular=True, may_be_rare=not glue),
    )


def is_named_by_form(word: str) -> bool:
    """Return whether a token is certainly a name: an identifier, and not a version."""
    return word.isidentifier() and _form(word).named and not (word[0] == "v" and word[1:].isdigit())


def _is_joined(text: str, begin: int, end: int, form: _Form) -> bool:
    """Return whether a word is part of a name: a dotted name, a path, a call, a proper name."""
    before = text[begin - 1] if begin > 1 else ""
    if before in _JOINED and not text[begin - 2].isspace():
        return True
    after = text[end : end + 2]
    if len(after) == 2 and (after[0] in _JOINED or after[0] == "(") and not after[1].isspace():
        return True
    return form.capital and before == " " and (text[begin - 2].isalnum() or text[begin - 2] in ",)")


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _QUOTED.finditer(text):
        inner = match.group(2)
        if _CODE_LIKE.search(inner) or len(inner.split()) <= _MAX_QUOTED_WORDS:
            yield match.span()
