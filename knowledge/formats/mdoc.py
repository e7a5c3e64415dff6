"""Write lines of mdoc, the macros of BSD manual pages, as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\ |[^ \t])+)')
_ENCLOSURES: Final = {
    "Op": "[]", "Dq": "“”", "Qq": '""', "Sq": "‘’", "Pq": "()", "Bq": "[]", "Aq": "<>", "Brq": "{}", "Ql": "‘’",  # noqa: RUF001
}  # fmt: skip
_OPENERS: Final = {"Oo": "[", "Do": "“", "Qo": '"', "So": "‘", "Po": "(", "Bo": "[", "Ao": "<", "Bro": "{"}  # noqa: RUF001
_CLOSERS: Final = {"Oc": "]", "Dc": "”", "Qc": '"', "Sc": "’", "Pc": ")", "Bc": "]", "Ac": ">", "Brc": "}"}  # noqa: RUF001
_WORDS: Final = frozenset({
    "Ar", "Cm", "Ic", "Pa", "Ev", "Va", "Vt", "Fa", "Li", "Em", "Sy", "No", "Ad", "An", "Cd", "Dv", "Er", "Ft",
    "Ms", "Tn", "Mt", "Lk", "Me", "Nm", "Fn", "In", "Bsx", "Nx", "Fx", "Ox", "Ux", "Bx", "Dx", "Fd", "Db", "Eo",
    "Ec", "Xo", "Xc", "%A", "%T", "%B", "%D", "%I", "%J", "%N", "%O", "%P", "%Q", "%R", "%U", "%V", "%C", "Dl",
    "D1", "Nd", "St", "At", "Lb", "Tg", "Ta", "Fo", "Fc", "Bk", "Ek",
})  # fmt: skip
_CALLED: Final = _WORDS.union(_ENCLOSURES, _OPENERS, _CLOSERS, {"Fl", "Xr", "Ns", "Ap", "Pf", "Ex", "Rv"})
_NAMES: Final = {
    "Ux": "UNIX",
    "Nx": "NetBSD",
    "Fx": "FreeBSD",
    "Ox": "OpenBSD",
    "Bx": "BSD",
    "Dx": "DragonFly",
    "Bsx": "BSD/OS",
    "Nd": "—",
}
_EXIT_STATUS: Final = "Exit status is 0 on success, and >0 if an error occurs."
_RIGHT: Final = frozenset(".,:;)]?!")
_LEFT: Final = frozenset("([")
BEGIN_DISPLAY: Final = frozenset({"Bk", "Ek", "Rs", "Re", "Os", "Dd", "Sm", "Bf", "Ef", "Tg"})
MDOC_ENDS: Final = frozenset({"Ed", "El"})


def split_arguments(rest: str) -> list[str]:
    """Return the arguments of a macro; those with blanks are quoted."""
    return [found[1].replace('""', '"') if found[2] is None else found[2] for found in _ARGUMENT.finditer(rest)]


def render_mdoc(name: str, rest: str, plain: Callable[[str], str]) -> str | None:
    """Return the text of a macro's line, None for an unknown macro."""
    return _Line([name, *split_arguments(rest)], plain).render() if name in _CALLED else None


@dataclass(slots=True)
class _Line:
    """A line of macros and words, written from left to right."""

    words: list[str]
    plain: Callable[[str], str]
    parts: list[str] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)
    glued: bool = False
    prefix: str = ""
    at: int = 0

    def render(self) -> str:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word in _CALLED:
                self.prefix = ""
                self.call(word)
            else:
                self.argument(word)
        self.close()
        return " ".join(self.parts)

    def put(self, text: str, *, glue: bool = False) -> None:
        """Write a text, without a blank before it where it belongs to the one before."""
        if text and self.parts and (self.glued or text in _RIGHT):
            self.parts[-1] += text
        elif text:
            self.parts.append(text)
        if text:
            self.glued = glue or text in _LEFT

    def close(self) -> None:
        while self.closing:
            self.glued = True
            self.put(self.closing.pop())

    def argument(self, word: str) -> None:
        if word in _RIGHT:
            if all(each in _RIGHT for each in self.words[self.at - 1 :]):
                self.close()
            self.put(word)
        else:
            self.put(self.prefix + self.plain(word))

    def following(self) -> str | None:
        return self.words[self.at] if self.at < len(self.words) else None

    def call(self, word: str) -> None:
        following = self.following()
        ends = following is None or following in _RIGHT
        if word == "Fl" and (ends or following in _CALLED):
            self.put("-")
        elif word == "Fl":
            self.prefix = "-"
        elif word in {"Xr", "Fn", "Pf"} and following is not None:
            self.call_with_argument(word, following)
        elif word in {"Ns", "Ap"}:
            self.glued = True
            self.put("'" if word == "Ap" else "", glue=True)
        elif word in _ENCLOSURES:
            self.put(_ENCLOSURES[word][0], glue=True)
            self.closing.append(_ENCLOSURES[word][1])
        elif word in _OPENERS:
            self.put(_OPENERS[word], glue=True)
        elif word in _CLOSERS:
            self.glued = True
            self.put(_CLOSERS[word])
        elif word == "Ex":
            self.put(_EXIT_STATUS)
            self.at = len(self.words)
        elif word == "Ar" and ends:
            self.put("file ...")
        else:
            self.put(_NAMES.get(word, ""))

    def call_with_argument(self, word: str, following: str) -> None:
        """Write a reference to a page, a function with its arguments, or a prefix."""
        self.at += 1
        name = self.plain(following)
        if word == "Pf":
            self.put(name, glue=True)
        elif word == "Fn":
            arguments = [self.plain(each) for each in self.words[self.at :] if each not in _RIGHT]
            self.put(f"{name}({', '.join(arguments)})")
            self.at = len(self.words)
        else:
            section = self.following()
            if section is not None and section not in _RIGHT:
                self.at += 1
                name = f"{name}({section})"
            self.put(name)
