"""Write lines of mdoc, the macros of BSD manual pages, as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\ |[^ \t])+)')
_ENCLOSURES: Final = {
    "Op": "[]", "Dq": "“”", "Qq": '""', "Sq": "‘’", "Pq": "()", "Bq": "[]", "Aq": "<>", "Brq": "{}", "Ql": "‘’",  # noqa: RUF001
}  # fmt: skip
_OPENERS: Final = {"Oo": "[", "Do": "“", "Qo": '"', "So": "‘", "Po": "(", "Bo": "[", "Ao": "<", "Bro": "{"}  # noqa: RUF001
_CLOSERS: Final = {"Oc": "]", "Dc": "”", "Qc": '"', "Sc": "’", "Pc": ")", "Bc": "]", "Ac": ">", "Brc": "}"}  # noqa: RUF001
_WORDS: Final = frozenset(
    "Ar Cm Ic Pa Ev Va Vt Fa Li Em Sy No Ad An Cd Dv Er Ft Ms Tn Mt Lk Me Nm Fn In Bsx Nx Fx Ox Ux Bx Dx Fd Db Eo Ec Xo"
    " Xc %A %T %B %D %I %J %N %O %P %Q %R %U %V %C Dl D1 Nd St At Lb Tg Ta Fo Fc Bk Ek".split()
)
_CALLED: Final = _WORDS | frozenset(_ENCLOSURES) | frozenset(_OPENERS) | frozenset(_CLOSERS) | {"Fl", "Xr", "Ns", "Ap", "Pf", "Ex", "Rv"}
_NAMES: Final = {"Ux": "UNIX", "Nx": "NetBSD", "Fx": "FreeBSD", "Ox": "OpenBSD", "Bx": "BSD", "Dx": "DragonFly", "Bsx": "BSD/OS"}
_RIGHT: Final = frozenset(".,:;)]?!")
_LEFT: Final = frozenset("([")
BEGIN_DISPLAY: Final = frozenset({"Bk", "Ek", "Rs", "Re", "Os", "Dd", "Sm", "Bf", "Ef", "Tg"})
MDOC_ENDS: Final = frozenset({"Ed", "El"})


def split_arguments(rest: str) -> list[str]:
    """Return the arguments of a macro; those with blanks are quoted."""
    return [
        found[1].replace('""', '"') if found[2] is None else found[2]
        for found in _ARGUMENT.finditer(rest)
    ]


def render_mdoc(name: str, rest: str, plain: Callable[[str], str]) -> str | None:
    """Return the text of a macro's line, None for an unknown macro."""
    if name not in _CALLED:
        return None
    words = [name, *split_arguments(rest)]
    parts: list[str] = []
    glued = False
    closing: list[str] = []
    prefix = ""

    def put(text: str) -> None:
        nonlocal glued
        if not text:
            return
        if parts and (glued or text in _RIGHT):
            parts[-1] += text
        else:
            parts.append(text)
        glued = text in _LEFT

    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word not in _CALLED:
            if word in _RIGHT and closing and all(each in _RIGHT for each in words[at - 1 :]):
                while closing:
                    glued = True
                    put(closing.pop())
            put(prefix + plain(word) if word not in _RIGHT else word)
            continue
        prefix = ""
        following = words[at] if at < len(words) else None
        if word == "Fl":
            prefix = "-"
            if following is None or following in _CALLED or following in _RIGHT:
                put("-")
                prefix = ""
        elif word == "Xr" and following is not None:
            section = words[at + 1] if at + 1 < len(words) and words[at + 1] not in _RIGHT else ""
            put(f"{plain(following)}({section})" if section else plain(following))
            at += 2 if section else 1
        elif word == "Ns":
            glued = True
        elif word == "Ap":
            glued = True
            put("'")
            glued = True
        elif word == "Pf" and following is not None:
            put(plain(following))
            glued = True
            at += 1
        elif word in _ENCLOSURES:
            put(_ENCLOSURES[word][0])
            glued = True
            closing.append(_ENCLOSURES[word][1])
        elif word in _OPENERS:
            put(_OPENERS[word])
            glued = True
        elif word in _CLOSERS:
            glued = True
            put(_CLOSERS[word])
        elif word in _NAMES:
            put(_NAMES[word])
        elif word == "Nd":
            put("—")
        elif word == "Fn" and following is not None:
            put(f"{plain(following)}({', '.join(plain(each) for each in words[at + 1 :] if each not in _RIGHT)})")
            at = len(words)
        elif word == "Ar" and (following is None or following in _RIGHT):
            put("file ...")
        elif word in {"Ex", "Rv"}:
            put("Exit status is 0 on success, and >0 if an error occurs." if word == "Ex" else "")
            at = len(words)
    while closing:
        glued = True
        put(closing.pop())
    return " ".join(parts)
