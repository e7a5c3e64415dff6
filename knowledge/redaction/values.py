"""Patterns of the values behind a lead: quoted, bare, in headers and in URLs."""

from __future__ import annotations

import re
from typing import Final


def _in_quotes(quote: str, slashes: int) -> str:
    """Return the pattern of a quoted value whose quotes have `slashes` backslashes, up to the next such quote."""
    plain, most = rf"[^{quote}\\\xff\s]", 2 * slashes + 1
    escaped = rf"\\{{{most + 1}}}|\\{{{most}}}{quote}|\\{{1,{most}}}{plain}"
    return rf"\\{{{slashes}}}{quote}({plain}{{0,512}}+(?:(?:{escaped}){plain}{{0,512}}+){{0,64}}+)"


_THRICE = r"""(?:"{3}|'{3})\s{0,4}([^"'\\\xff\s]{4,512})"""
_BARE = (
    r"""(?<!,)(?<!,\s)([^"'`\\\xff\s]{1,512}+(?:(?:\\{1,8}[^nrt"'`\\\xff\s]|(?<=[^\s=:,(\[{])["'](?=[A-Za-z0-9]))"""
    r"""[^"'`\\\xff\s]{0,512}+){0,64}+)"""
)
"""An unquoted value. A quote between letters or digits does not end it; after a comma it would be code."""
VALUE: Final = re.compile(
    "|".join(
        [
            *(rf"[bfruBFRU]{{0,2}}{form}" for form in [_THRICE, *(_in_quotes(q, n) for q in "\"'" for n in (0, 1, 3))]),
            _BARE,
        ]
    ).encode("latin1")
)
WORD: Final = re.compile(rb"""["'`]?([^\s"'`\xff]{4,512})""")
BASE64: Final = re.compile(rb"""["']?([A-Za-z0-9+/]{40,512}={0,2})""")
OF_JWK: Final = re.compile(rb"""([\w-]{43,512})[\x22]""")
SIGNATURE: Final = re.compile(rb"([\w%+/-]{40,512})")
BASIC: Final = re.compile(rb"([A-Za-z0-9+/_-]{4,512}={0,2})")
COOKIE: Final = re.compile(rb"""[\w.%-]{1,60}=([^;\s"'\xff]{0,512})[^;\s"']*;?[ ]{0,3}""")
OF_NETRC: Final = re.compile(rb"""["']?([^\s"'\xff]{1,512})["']?(?:\s{1,8}(?i:password|account)\s{1,8})?""")
TO_HOST_ALONE: Final = re.compile(rb"""([\w.~%+=-]{16,512})@(?!sha\d+:)[\w\[]""")
CREDENTIAL: Final = re.compile(rb"([\w.~+/=-]{8,512})")
TO_HOST: Final = re.compile(
    rb"""(?:([^\s/"'<>?#\xff]{1,200})|(?!\d{0,5}[/?#]|:)([^\s"'<>\xff]{1,200}?))@(?!sha\d+:)[\w\[.-]"""
)
"""A password up to the host: well-formed first, else with characters that should have been escaped; not a port."""

TO_ORACLE: Final = re.compile(rb"""([^\s/"'<>\xff]{1,200}?)@""")
