"""The part of a rule's documentation that says what to do, or nothing.

Tools write the message again as help, a template that nobody filled, a title with a link, or a whole page. None of the
first three solves anything, and of a page only some parts do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_HEADING = re.compile(r"^\s*(?:#{1,6}\s*(?P<marked>.+?)\s*#*|\*\*(?P<bold>[^*]+?):?\*\*:?)\s*$")
_REMEDY_HEADING = re.compile(
    r"use instead|how (?:to|do i|can i) (?:fix|solve|resolve|avoid|remedy)|\bfix(?:es|ing)?\b(?! safety)|remed"
    r"|recommend|solution|mitigat|what to do|resol(?:ve|ution)|correct(?:ed)? code|compliant (?:code|solution)"
    r"|preferred|good example|instead",
    re.IGNORECASE,
)
_OTHER_HEADING = re.compile(r"non-?compliant|fix safety|incorrect|bad example", re.IGNORECASE)
_LABELLED = re.compile(
    r"^\W*(?:resolution|solution|remediation|recommendation|recommended action|mitigation|how to fix|fix)\W*:\W*"
    r"([A-Za-z`'\"].{8,})$",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_USE_INSTEAD = re.compile(
    r"^\s*(?:use instead|instead,? use|do this instead|should be(?: written(?: as)?)?|we can simplify|correct(?: code)?"
    r")\b.*:\s*$",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)|<?\bhttps?://[^\s>)]+>?|\[[^\]]+\]\[[^\]]*\]")
_LINK_WORDS = re.compile(
    r"^(?:for (?:more|further|additional) (?:information|details|help)|more (?:information|info|details)|see|see also|"
    r"read more|learn more|references?|documentation|docs|read the docs|refer to|details|help|visit|check)\b",
    re.IGNORECASE,
)
_HOLE = re.compile(
    r"\{\{?\s*[A-Za-z_][\w.]*\s*\}?\}|\{\d*\}|\$[A-Z][A-Z0-9_]*\b|\$\{[^}]*\}|%\d*\$?[sdvq]\b|%\([a-z_]\w*\)s"
)
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_ADVICE = re.compile(
    r"\b(?:should(?: be| not)?|must|need(?:s)? to|instead|consider|prefer(?:red)?|recommended|rather than|replace(?:d)?"
    r" (?:it|by|with|them)|make sure|ensure|avoid|it is better|can be (?:replaced|simplified|written|removed|fixed)|"
    r"to fix|try to|use (?:of )?(?:a |an |the )?`)",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(
    r"^(?:please |always |either |never |instead,? |do not |don't |just |simply )?(?:add|adjust|allow|apply|ask|assign|"
    r"avoid|bind|break|bump|call|cast|catch|change|check|choose|clean|close|combine|compare|configure|consider|convert|"
    r"copy|create|declare|define|delete|disable|do|drop|enable|encode|ensure|escape|exclude|expose|extract|fix|follow|"
    r"generate|give|group|handle|hash|ignore|import|include|increase|initialize|initialise|inline|insert|install|keep|"
    r"limit|load|lock|log|lower|make|mark|merge|move|name|omit|open|order|pass|pin|place|prefer|prefix|provide|put|"
    r"quote|raise|read|reduce|refactor|rely|remove|rename|reorder|replace|require|reset|restrict|return|rewrite|rotate|"
    r"run|sanitize|sanitise|separate|set|simplify|sort|specify|split|store|switch|tag|throw|turn|update|upgrade|"
    r"use(?! of)|validate|verify|wrap|write)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'])")
_ABOUT_RULE = re.compile(r"\bthis (?:rule|check)\b|\[preview\]|known problems", re.IGNORECASE)


def find_remedy(helps: Iterable[str], descriptions: Iterable[str], *, titles: Iterable[str]) -> str:
    """Return the part that says what to do of the first text that has one, "" if none has.

    `helps` are meant to say it; of `descriptions`, only sections and sentences that do. `titles`: the message, the
    rule's name and short description: what repeats one of them says nothing.
    """
    known = [title for title in titles if title.strip()]
    for text in helps:
        if remedy := _read(text, known, is_help=True):
            return remedy
    for text in descriptions:
        if remedy := _read(text, known, is_help=False):
            return remedy
    return ""


def describe_rule(texts: Iterable[str], *, message: str) -> str:
    """Return the first text that tells more than the message; of a page with headings only its first paragraph."""
    for text in texts:
        if not text.strip() or _repeats(text, [message]):
            continue
        sections = _sections(text.strip())
        if len(sections) == 1:
            return _paragraphs(text.strip())[0] if "```" in text else text.strip()
        first = next((body for _, body in sections if body), "")
        paragraph = next(iter(_paragraphs(first)), "")
        if paragraph and not _LINK_WORDS.match(paragraph):
            return paragraph
    return ""


def _read(text: str, titles: list[str], *, is_help: bool) -> str:
    text = text.replace("\r\n", "\n").strip()
    if not text or _repeats(text, titles):
        return ""
    sections = _sections(text)
    named = [
        body for heading, body in sections if _REMEDY_HEADING.search(heading) and not _OTHER_HEADING.search(heading)
    ]
    if remedy := "\n\n".join(part for body in named if (part := _drop_links(body, titles))):
        return remedy
    labelled = [line for each in _LABELLED.finditer(text) if not _repeats(line := each[1].strip(), titles)]
    if labelled:
        return "\n".join(labelled)
    instead = _find_instead(text)
    body = "\n\n".join(body for heading, body in sections if not _is_about_links(heading))
    advice = _find_advice(body, titles)
    if instead or (advice and not is_help):
        return "\n\n".join(part for part in (advice, instead) if part)
    if not is_help:
        return ""
    rest = _drop_links(body, titles)
    return rest if rest and (advice or _is_statement(rest, text)) else ""


def _repeats(text: str, titles: Iterable[str]) -> bool:
    """Return whether a text is one of the titles, or the template that one of them was made of."""
    flat = _flatten(text)
    if any(f" {flat} " in f" {_flatten(title)} " for title in titles):
        return True
    if not _HOLE.search(text):
        return False
    pattern = ".+".join(re.escape(_flatten(part)) for part in _HOLE.split(text))
    is_filled = any(re.fullmatch(pattern, _flatten(title), re.DOTALL) for title in titles)
    return is_filled or "\n" not in text


def _flatten(text: str) -> str:
    return re.sub(r"[\s`*_:;]+", " ", text).strip(" .:;!").casefold()


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the headings of a text with what stands under each; the first heading is empty."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading:
            sections.append((heading["marked"] or heading["bold"], []))
        else:
            sections[-1][1].append(line)
    return [(heading, "\n".join(lines).strip()) for heading, lines in sections]


def _is_about_links(heading: str) -> bool:
    return bool(re.match(r"(?:references?|see also|further|links?|options|more)\b", heading.strip(), re.IGNORECASE))


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs; a block of code is one."""
    paragraphs: list[list[str]] = [[]]
    fenced = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            if not fenced:
                paragraphs.append([])
            paragraphs[-1].append(line)
            fenced = not fenced
            if not fenced:
                paragraphs.append([])
        elif fenced or line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    return ["\n".join(lines).strip("\n") for lines in paragraphs if lines]


def _find_instead(text: str) -> str:
    """Return the example that is introduced as what to write instead."""
    paragraphs = _paragraphs(text)
    for number, paragraph in enumerate(paragraphs):
        last = paragraph.strip().split("\n")[-1]
        if _USE_INSTEAD.match(last) and number + 1 < len(paragraphs) and _FENCE.match(paragraphs[number + 1]):
            parts = [paragraph, paragraphs[number + 1]]
            following = paragraphs[number + 2 : number + 4]
            if (
                len(following) == 2
                and following[0].strip().rstrip(":").casefold() == "to"
                and _FENCE.match(following[1])
            ):
                parts += following
            return "\n".join(parts)
    return ""


def _find_advice(text: str, titles: list[str]) -> str:
    """Return the sentences that say what to do."""
    found = []
    for paragraph in _paragraphs(text):
        if _FENCE.match(paragraph):
            continue
        lines = [line for line in paragraph.split("\n") if not _USE_INSTEAD.match(line) and not _repeats(line, titles)]
        sentences = _SENTENCE_END.split(" ".join(" ".join(lines).split()))
        found += [sentence for sentence in sentences if _is_advice(sentence) and not _repeats(sentence, titles)]
    return " ".join(found)


def _is_advice(sentence: str) -> bool:
    bare = _CODE_SPAN.sub("`x`", sentence)
    words = sentence.lstrip("-*• ")
    if _LINK_WORDS.match(words) or _HOLE.search(bare) or _ABOUT_RULE.search(sentence):
        return False
    if not re.sub(r"\W", "", _LINK.sub("", sentence)):
        return False
    return bool(_ADVICE.search(sentence) or _IMPERATIVE.match(words))


def _drop_links(text: str, titles: list[str]) -> str:
    """Return a text without its repeated titles, templates, links of their own, and words about where to read more."""
    left = []
    for paragraph in _paragraphs(text):
        if _FENCE.match(paragraph):
            left.append(paragraph)
            continue
        lines = [line for line in paragraph.split("\n") if not _says_nothing(line, titles)]
        if lines and not _repeats("\n".join(lines), titles):
            left.append("\n".join(lines))
    if all(_FENCE.match(paragraph) is None and not paragraph.strip() for paragraph in left):
        return ""
    return "\n\n".join(left).strip()


def _says_nothing(line: str, titles: list[str]) -> bool:
    words = _LINK.sub("", line).strip(" -*•:.,()[]<>|")
    if not words or _LINK_WORDS.match(words):
        return True
    if _HEADING.match(line) or _HOLE.search(_CODE_SPAN.sub("`x`", line)):
        return True
    return _repeats(line, titles) or (words != line.strip() and _repeats(words, titles))


def _is_statement(rest: str, text: str) -> bool:
    """Return whether a help without words of advice is a sentence of its own, not a title with a link."""
    has_link = bool(_LINK.search(text))
    return not has_link and (rest.rstrip().endswith((".", "!")) or len(rest.split()) > 8)
