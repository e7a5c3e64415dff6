"""Detect paragraphs of a document that give orders to a model: they are not evidence; pure.

The patterns are ours. They find the usual orders, not all: in addition, every claim needs a quote that contains its
names and numbers (`verifying`).
"""

from __future__ import annotations

import re
from functools import lru_cache

import re2

from hardwon.text.invisible import visible_text

_WHOM = (
    r"(?:ai|a\.i\.|llms?|chat ?bots?|bots?|gpt(?:-?\d\w*)?|claude|gemini|copilot"
    r"|(?:large )?language models?|(?:ai|virtual|digital) (?:assistants?|agents?|models?|systems?))\b"
)
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|guardrails?|restrictions?|constraints?"
    r"|policies|programming|training)"
)
_DROP = r"(?:ignore|disregard|forget|override|overrule|bypass|discard|neglect|set aside|do not follow|don't follow)"
_SAY = r"(?:respond|reply|answer|say|state|write|print|output|repeat|return|claim|report|conclude|tell|cite|quote)"

_FORMS = (
    rf"\b{_DROP}\b[^.!?\n]{{0,60}}\b{_RULES}\b",
    (
        rf"\b{_DROP}\b[^.!?\n]{{0,40}}\b(?:above|previous|prior|earlier|preceding|before|everything|so far"
        r"|(?:other|all|these|those|the) (?:documents?|sources?|passages?|context|text))\b"
    ),
    (
        rf"\b(?:new|updated|revised|secret|hidden|special|real|actual|additional|system|developer|admin(?:istrator)?)"
        rf" {_RULES}(?: for {_WHOM}| for you)?\s*:"
    ),
    r"\b(?:system|developer|hidden|initial) (?:prompt|message|note|override|instructions?)\b",
    r"\byou are (?:now|no longer|henceforth|from now on)\b",
    r"\b(?:from now on|henceforth),? (?:you|always|never|only|act|answer|respond|reply)\b",
    rf"\b(?:act|behave|respond|answer) as (?:if|though|an?|the)\b[^.!?\n]{{0,30}}\b(?:{_WHOM}|admin|expert|you)\b",
    r"\b(?:pretend|role-?play)\b[^.!?\n]{0,30}\b(?:you|that|to be|as)\b",
    (
        rf"\b(?:dear|attention|hey|hello|hi|note to|notes? for|message (?:to|for)|memo to|to (?:the|any|all|every))"
        rf",? (?:the |any |all |every )?(?:{_WHOM}|assistants?|models?|agents?)\b"
    ),
    rf"\b(?:if|when|since|as) you(?:'re| are) an? {_WHOM}\b",
    (
        rf"\b{_WHOM}(?: reading| that reads?| who reads?| processing| summari[sz]ing)?"
        r"[^.!?\n]{0,20}\b(?:must|should|shall|has to|have to|need to|needs to|is to|are to|will now)\b"
    ),
    (
        r"\b(?:when|if|whenever)\b[^.!?\n]{0,40}\bask(?:s|ed)?\b[^.!?\n]{0,60}[,:]\s*"
        rf"(?:always |only |just |please )?{_SAY}\b"
    ),
    r"\b(?:in|to|of|into) your (?:final )?(?:answer|reply|response|summary|output)s?\b",
    (
        r"\byour (?:final |only |next )?(?:answer|reply|response|output|task|job|goal|instructions?)"
        r" (?:must|should|is|are|has to|will)\b"
    ),
    (
        r"(?:^|[.!?:;]\s*|\b(?:and|then|please|instead|just|simply|always|only|must|should)\s+)(?:respond|reply|answer)"
        r" (?:(?:only|exactly|always|simply|just|instead) )*(?:"
        r"(?:with|that|this|exactly|the following|only)\b|:|[\"'`])"
    ),
    r"\b(?:tell|inform|assure|convince) (?:the user|the human|whoever asks|anyone who asks|everyone)\b",
    rf"(?:^|[.!?:;]\s*|\b(?:and|then|please|instead)\s+){_SAY} (?:exactly|verbatim|only|nothing but)\b",
    (
        rf"\b(?:do not|don't|never|must not) (?:mention|cite|reveal|disclose|quote|repeat)"
        rf" (?:this|these|those|the|your|any|its) (?:\w+ )?"
        rf"(?:{_RULES}|notes?|messages?|sources?|documents?|passages?|citations?)\b"
    ),
    rf"\binstead,? {_SAY}\b",
    r"\b(?:jailbreak|prompt injection|dan mode|developer mode|god mode)\b",
    r"<\|[a-z_]+\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant|instructions?)>",
    r"^[^\S\n]*#{0,6}[^\S\n]*(?:system|assistant|developer|instructions?|new instructions?)\s*:",
    (
        r"\b(?:this|the following) (?:document|passage|source|text)"
        r" (?:is the only|supersedes|overrides|replaces|takes precedence)"
    ),
    r"\btrust (?:only )?(?:this|the following) (?:document|passage|source|text)\b",
)
_PEOPLE = (
    r"(?:customer|client|caller|guest|patient|visitor|member|colleague|buyer|student|employee|applicant|tenant|passenger"
    r"|resident|subscriber)s?"
)
_STAFF = r"(?:staff|clerks?|operators?|support|the (?:desk|office|reception|night shift|day shift|hotline))"
_OLDER = r"(?:previous|earlier|older|old|prior|former|first|printed)"
_OVER = (
    r"(?:withdrawn|replaced|outdated|obsolete|superseded|retired|revoked|wrong|out of date"
    r"|no longer (?:valid|in force))"
)
_HONEST = (
    # staff that is told what to say to people; what has an address or a secret in it may be a lure
    (
        rf"(?:\b(?:if|when|whenever) (?:an?|the|any) {_PEOPLE}\b[^.!?\n]{{0,40}}\bask(?:s|ed)?\b[^.,!?\n]{{0,60}},"
        rf"|\b{_STAFF} (?:should|must|may|can|has to|have to|will))"
        r"\s+(?:please )?(?:tell|inform) the user (?=to [a-z]+ )"
        r"(?![^.!?\n]*(?:://|www\.|@|\bpasswords?\b|\btokens?\b|\bsecrets?\b|\bcredit card))"
    ),
    # what a program has, told of and not given
    (
        r"\b(?:the|an?|each|every|its|our|their) (?:system|initial|developer) (?:prompt|message|instructions?)"
        r" (?:(?:of|for|in) [^.!?:\n]{1,40} )?(?:is|are|was|were|lives?|comes?|consists?|has|have)\b(?!\s*[:\"'])"
        r"(?! (?:now|hereby|(?:been )?(?:changed|updated|replaced|overridden|revoked|void|wrong|as follows|to)))\b"
    ),
    (
        rf"\b(?:ignore|disregard|discard|do not follow|don't follow) (?:the |any |all |every )?{_OLDER}"
        rf" (?:versions?|editions?|drafts?|copy|copies|issues?|revisions?) of (?:this|these|the) (?:\w+ )?{_RULES}"
        rf"(?=[;,.:]? (?:it|they|which|that) (?:was|were|is|are|has been|have been) {_OVER}\b)"
    ),
)
"""Harmless wording between people that resembles such orders; only these words are ignored, not those around them."""
_MEMORY = 32 << 20
_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n))*")
_BLANKS = re.compile(r"[^\S\n]+")
"""White space within a line, non-breaking spaces included."""
_MAX_CACHED_CHARS = 4_000
"""Maximum characters of a cached text: passages are checked repeatedly, whole documents are not."""


def _compile_forms() -> re2._Regexp:
    """Return all forms as one automaton: it reads a listing of 500 lines in 0.2 ms, Python's `re` in 0.2 s."""
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MEMORY, False, True
    return re2.compile("(?im)" + "|".join(f"(?:{form})" for form in _FORMS), options)


_ORDER = _compile_forms()
_TOLD_PEOPLE = re.compile("|".join(_HONEST), re.IGNORECASE)


def gives_orders(text: str) -> bool:
    """Return whether a paragraph tells a model what to do."""
    plain = _BLANKS.sub(" ", visible_text(text))
    return _ORDER.search(plain) is not None and _ORDER.search(_TOLD_PEOPLE.sub(" ", plain)) is not None


def without_orders(text: str) -> str:
    """Return a text of the same length, blanks in place of the paragraphs that give orders to a model."""
    return _without_orders_cached(text) if len(text) <= _MAX_CACHED_CHARS else _blank_orders(text)


@lru_cache(maxsize=512)
def _without_orders_cached(text: str) -> str:
    return _blank_orders(text)


def _blank_orders(text: str) -> str:
    if not gives_orders(text):
        return text
    return _PARAGRAPH.sub(lambda found: " " * len(found[0]) if gives_orders(found[0]) else found[0], text)
