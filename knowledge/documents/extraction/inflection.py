"""Inflections and synonyms by which a text may match a word of the question; pure.

The stem finds "restarted" for "restart". It does not find "chose" for "choose", "two" for 2, "config" for
"configuration", nor the owner of what somebody owns.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from knowledge.text.bm25 import stem, term_counts, term_id, words_and_wholes

_IRREGULAR: Final = """
become became; begin began begun; break broke broken; bring brought; build built; buy bought; catch caught
choose chose chosen; come came; draw drew drawn; drive drove driven; fall fell fallen; find found
forget forgot forgotten
freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown; hide hid hidden; hold held
keep kept; know knew known; lead led; leave left; lend lent; lose lost; make made; mean meant; meet met
pay paid; rise risen; run ran; say said; see seen; sell sold; send sent; show shown; speak spoke spoken; spend spent
stand stood; steal stole stolen; take took taken; teach taught; tell told; think thought; throw threw thrown
understand understood; wake woke woken; wear worn; write wrote written; overwrite overwrote overwritten
withdraw withdrew withdrawn
"""
_SHORT: Final = """
admin administrator; app application; config configuration; db database; dev development; dir directory
doc documentation; env environment; info information; k8s kubernetes; max maximum; ms millisecond; mb megabyte
gb gigabyte; param parameter; prod production; repo repository; sec second; temp temporary
"""
_NUMBERS: Final = """
2 two; 3 three; 4 four; 5 five; 6 six; 7 seven; 8 eight; 9 nine; 10 ten; 11 eleven; 12 twelve; 15 fifteen; 20 twenty
30 thirty; 40 forty; 50 fifty; 60 sixty; 70 seventy; 80 eighty; 90 ninety
"""
_CODE: Final = r"(?-i:[`\"\u201c]?\w*(?:[A-Z]{2}|\d|_)[\w.:-]*[`\"\u201d]?)"
_ASIDE: Final = re.compile(
    r"(?i)\b[a-z]+n['\u2019]t\b|(?<=\w)['\u2019](?:s|re|ve|ll|d|m)\b"
    r"|\A\s*(?:please\s+)?(?:show|tell|give|find)\s+(?:me|us)\b"
    r"|(?<=\bhow)\s+(?:many|much|long|often|far|big|large|high|old|soon|quick(?:ly)?|fast)\b|\bwhy\b"
    r"|(?<=\bwhat)\s+time\b|(?:(?<=\bwhat)|(?<=\bwhich))\s+(?:kind|type|sort)s?(?=\s+of\b)"
    rf"|(?P<said>\bwhat\s+(?:do|does|did)\s+(?:[a-z]+\s+){{0,3}}?{_CODE})(?:\s+[a-z]+)?\s+(?:mean|stand\s+for)\b"
    rf"|\bmeaning(?=\s+of\s+(?:[a-z]+\s+){{0,3}}?{_CODE})"
    r"|(?<=\bwhat)\s+happen(?:s|ed)?\b|\b(?:should|do)\s+(?:i|we|you|one)\s+(?:do|know)\s+about\b"
    r"|\b(?:is|are|am|was|were|be)\s+(?:[a-z]+\s+)??(?:allowed|permitted|supposed|able)\b|\b(?:may|must|might|shall)\b"
    r"|\b(?:currently|exactly|actually|please|there|also|any)\b|\b(?:made)\W*\Z"
)
"""What only asks, and a text that answers need not say: the s of "What's", "Show me", the "long" of "How long". Of a
word, though not of a code, it says so itself where it tells what that means.
"""
_JOINS: Final = re.compile(
    r"(?P<said>\A\W*(?:(?:in|on|at|to|from|with|for|by|under)\s+)?(?:what|which)\s+(?!do\b|does\b|did\b|is\b|are\b)\w.*\w)\s+"
    r"(?:uses?|used|runs?|running|has|have|had|written|kept|stored|hosted|located|reached|belongs?"
    r"|gets?|sits?)(?:\s+(?:in|on|at|by|for|to|with|from|under))?\W*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""The verb that only joins a thing to what is asked of it: "Which port does the pump run on?" asks for its port."""
_WHO = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\bhow\s+(?:many|much)\s+([a-z]+)", re.IGNORECASE)
_LEAST_OF_A_VERB: Final = 3
_VOWELS: Final = frozenset("aeiou")


def forms_of(question: str) -> dict[int, frozenset[int]]:
    """Return the terms of a question, each with all terms that say the same, itself among them."""
    known = _synonyms()
    said = _ASIDE.sub(_keep_words, _JOINS.sub(_keep_words, question))
    found = {term: known.get(term, frozenset({term})) for term in term_counts(said)}
    if _WHO.search(question):
        for word in words_and_wholes(said)[0]:
            term = term_id(stem(word))
            found[term] |= frozenset(term_id(stem(each)) for each in _doers(stem(word)))
    return found


def terms_asked(question: str) -> list[int]:
    """Return all terms by which a question's words may be told."""
    return sorted({form for forms in forms_of(question).values() for form in forms})


def terms_counted(question: str) -> frozenset[int]:
    """Return the terms of what a question asks the number of: of how many hosts nothing tells that names no host."""
    return frozenset(term for word in _COUNTED.findall(question) for term in term_counts(word))


@cache
def _synonyms() -> dict[int, frozenset[int]]:
    groups = re.split(r"[;\n]", f"{_IRREGULAR};{_SHORT};{_NUMBERS}")
    found: dict[int, frozenset[int]] = {}
    for group in groups:
        terms = frozenset(term_id(stem(word)) for word in group.split())
        found |= dict.fromkeys(terms, terms)
    return found


def _doers(verb: str) -> tuple[str, ...]:
    """Return what whoever does something is called: the owner owns, the writer writes, the runner runs."""
    if len(verb) < _LEAST_OF_A_VERB or not verb.isalpha():
        return ()
    doubled = verb[-1] not in _VOWELS and verb[-2] in _VOWELS
    return (f"{verb}er", f"{verb}r") if not doubled else (f"{verb}er", f"{verb}{verb[-1]}er")


def _keep_words(found: re.Match[str]) -> str:
    return f"{found['said'] or ''} "
