"""Harmless matches of the rules of what stands near each other: whose host it is, who is addressed, what is quoted."""

from __future__ import annotations

import re
from typing import Final

from knowledge.memory.capture.orders.exemptions import (
    KNOWN_HOSTS,
    is_advice,
    is_documentation,
    is_known_index,
    is_negated,
    is_own_host,
    is_own_key,
    is_public_forge,
    line_around,
)

_TOP_LEVEL: Final = (
    "com|net|org|io|dev|xyz|example|invalid|ru|cn|me|co|app|cloud|site|info|biz|tech|top|de|eu|uk|fr|nl|ch|at|it|es|"
    "pl|se|no|fi|dk|jp|kr|in|br|au|ca|us|tv|cc|gg|ai|to|ly|tk|online|store|space|club|live|pro|page|link|host|run"
)
_NUMBERS: Final = r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
ADDRESS: Final = rf"://|{_NUMBERS}|\b[a-z0-9][a-z0-9.-]*\.(?:{_TOP_LEVEL})\b"
_HOST: Final = re.compile(
    rf"[a-z]://(?:[^\s/@'\"]*@)?([^\s/:'\"`,;)\]>|}}]+)|(?<![\w./@:-])((?:[a-z0-9-]+\.)+(?:{_TOP_LEVEL}))(?![\w(.-]\w|[\w(])|(?<![\w./@:-])({_NUMBERS})(?![\w./-])"
)
_SITES: Final = re.compile(
    r"(?:^|\.)(?:gnu|kernel|freedesktop|gnome|kde|debian|apache|python|mozilla|videolan|sourceware|nongnu|chromium"
    r"|postgresql|rust-lang|golang|nodejs|fedoraproject|ubuntu|alpinelinux|archlinux|pypa|readthedocs|github|gitlab|docker|microsoft|google"
    r"|pytest|djangoproject|kubernetes|amazon|oracle|jenkins|eclipse|jetbrains|npmjs|getcomposer|opensuse|redhat)\.(?:org|com|io)$"
)
INDEX_HOST: Final = (
    r"(?:^|[\s/\"'`(<@=,])(?:pypi|npm|registry|gems?|rubygems|crates?|mirrors?|charts?|maven|m2|cran|cpan|hub|docker|apt|deb|debs|rpms?|yum|repos?|"
    r"packages?|pkgs?|wheels?|index|goproxy|conda|nuget|yarn|cargo|jars|opam|bottles|feeds?|artifacts?|nexus|artifactory|composer|simple)"
    rf"(?:[\w-]*)\.(?:[a-z0-9-]+\.)+(?:{_TOP_LEVEL})\b"
)
"""A host that is called like an index of packages."""
_GENERIC: Final = frozenset(
    """
    www npm pypi pip registry mirror mirrors packages package pkg repo repos maven nexus artifactory artifacts hub docker
    git gems gem rubygems crates charts helm conda simple index cdn api dl download downloads get static files example test
    com net org dev io app co goproxy proxy apt deb rpm yum php dart jars wheels ca pki certs keys key source sources
    """.split()
)
_AROUND: Final = 60
_SAID: Final = re.compile(
    r"\b(?:add|set|put|us(?:e|ing)|switch\w*|swap\w*|replac\w+|point\w*|chang\w+|configure|echo|export|run|fix\w*|solv\w+|help\w*|"
    r"work(?:s|ed)|then|edit|append|write|pass|if|instead|retry|until|prefer|prepend|list|call|import\w*|download|fetch|"
    r"copy|drop|just|install|need\w*|creat\w+|trust|register|made|does it|did it|will do|has|give|make|keep|let|"
    r"assum\w+|curl|wget|ask\w*|pull\w*|go|upgrade|ensure|enable|allow|clear|remove|delete)\b"
)

_REPORT: Final = re.compile(
    r"\b(?:error|warn(?:ing)?|err!|fail\w*|failure|not found|unreachable|timed? ?out|refused|denied|unauthorized|expired|"
    r"returned|down|crash\w*|hangs?|slow|broken|moved)\b"
)


def _foreign_hosts(text: str, window: str) -> list[str]:
    """Return the hosts in a part of a text that are neither well known nor one's own by their name or by the text."""
    found = {host[0] or host[1] or host[2] for host in _HOST.findall(window)}
    return [each for each in found if not _is_known(each) and not _is_of_named_organisation(each, text)]


def _is_known(host: str) -> bool:
    return host in KNOWN_HOSTS or is_public_forge(host) or is_own_host(host) or bool(_SITES.search(host))


def _is_of_named_organisation(host: str, text: str) -> bool:
    """Return whether a label of a host is the name of an organisation, or its scope of packages, elsewhere in a text."""
    labels = host.split(".")[:-1]
    names = [label for label in labels[1:] or labels if label not in _GENERIC and len(label) > 2]
    return any(re.search(rf"(?<![\w.-])@?{re.escape(name)}(?![\w.-]*\.\w)(?!\w)", text) for name in names)


def names_no_foreign_host(text: str, start: int, end: int) -> bool:
    """Return whether no foreign host stands in the line, or nothing is made with it: a failure is only reported."""
    line = line_around(text, start, end)
    if not _foreign_hosts(text, line):
        return True
    if _REPORT.search(line) and not _SAID.search(line):
        return True
    return is_negated(text, start, end)


def trusts_no_foreign_host(text: str, start: int, end: int) -> bool:
    """Return whether no foreign host stands in the line, or nothing is told to be done with it."""
    return not _SAID.search(line_around(text, start, end)) or names_no_foreign_host(text, start, end)


def is_of_known_hosts(text: str, start: int, end: int) -> bool:
    """Return whether no foreign host stands in the line."""
    return not _foreign_hosts(text, line_around(text, start, end)) or is_negated(text, start, end)


CHANGED: Final = (
    r"\b(?:add|set|put|us(?:e|ing)|switch\w*|swap\w*|replac\w+|point\w*|chang\w+|configure|edit|append|write|prepend|list|"
    r"rewrit\w+|redirect\w*|substitut\w+|override|insert|instead|sed|holds?|contains?|with|register|enter|move)\b"
)


_POINTED: Final = (
    r"\b(?:add|set|put|us(?:e|ing)|switch\w*|swap\w*|replac\w+|point\w*|chang\w+|configure|edit|prepend|insert|redirect\w*|"
    r"substitut\w+|override|instead|move|pull|install|fetch|download|export|env|echo|resolve|go|build|push|publish|host\w*|only)\b"
)


def leaves_manifest(text: str, start: int, end: int) -> bool:
    """Return whether no foreign host is put into a file of dependencies."""
    window = text[max(0, start - _AROUND) : end + _AROUND].split("\n")
    line = max(window, key=len)
    return not _foreign_hosts(text, line) or not re.search(CHANGED, line) or is_negated(text, start, end)


def points_to_no_foreign_index(text: str, start: int, end: int) -> bool:
    """Return whether a host that is called like an index is one's own, or nothing is pointed to it in its sentence."""
    before = re.split(r"[.!?;\n]\s", text[max(0, start - 2 * _AROUND) : start + 1])[-1]
    if re.search(r"\blogin\b[^\n]{0,60}$", before) or not re.search(_POINTED, before):
        return True
    return not _foreign_hosts(text, text[start:end]) or is_negated(text, start, end)


def is_about_root(text: str, start: int, end: int) -> bool:
    """Return whether it is the user root that has the number of root, or what is done is advised against or undone."""
    around = text[max(0, start - 30) : end + 16]
    return bool(
        re.search(r"\broot\b|\b(?:removed?|narrow\w+|found|audit|forbid\w*|denied|refus\w+)\b", around)
    ) or is_negated(text, start, end)


def is_of_own_organisation(text: str, start: int, end: int) -> bool:
    """Return whether the hosts of a match are of an organisation that the text names."""
    rest = re.match(r"\S{0,80}", text[end : end + 80])
    span = text[start:end] + (rest[0] if rest else "")
    hosts = [host[0] or host[1] or host[2] for host in _HOST.findall(span)]
    return bool(hosts) and not _foreign_hosts(text, " ".join(f"x://{host}" for host in hosts))


def is_index_known(text: str, start: int, end: int) -> bool:
    """Return whether an index is well known, one's own, or of an organisation that the text names."""
    return is_known_index(text, start, end) or is_of_own_organisation(text, start, end)


_RUNS: Final = re.compile(
    r"\| ?(?:sudo )?(?:ba|z|da)?sh\b|/(?:ba|z|da)?sh\b|\bbash\b|\bpip(?:e|es|ed|ing)\b|\beval|\bexec\w*|\bclon(?:e|es|ed|ing)\b|"
    r"\binto it\b|\b(?:run|start|launch|install|source|appl|load|import)(?:s|ning|ing|ies|y)?\b (?:it|them|the|whatever|what)\b|\bsource\b|"
    r"\bnewest\b|\bself-?updat\w+|\bpull(?:s|ing)? (?:from|in|the|its|their|new)\b|\bscripts?\b|\bbinar(?:y|ies)\b"
)


def runs_nothing_foreign(text: str, start: int, end: int) -> bool:
    """Return whether nothing of a foreign host is run in the line."""
    line = line_around(text, start, end)
    return not _RUNS.search(line) or names_no_foreign_host(text, start, end)


def follows_nothing_foreign(text: str, start: int, end: int) -> bool:
    """Return whether nothing of a foreign host is followed, or only documentation is."""
    line = line_around(text, start, end)
    return not _foreign_hosts(text, line) or is_documentation(text, max(0, text.rfind("\n", 0, start)), end)


_HARMLESS_SECRET: Final = re.compile(
    r"\b(?:dummy|fake|placeholder|example value|test value|empty|masks?|masked|mask(?:ing)?|redact\w*|never|\*\*\*|not |don'?t|"
    r"removed?|rotat\w+|leaked|accident\w*|wrongly|sample|names? of|without|public key|length of|encrypted|sealed|sops|"
    r"(?:repository|repo|github|gitlab|project|organi[sz]ation|ci) (?:settings|secrets?|variables?)|secrets? manager|"
    r"hidden|stripped|revoked|deactivated|instead of|rather than)\b"
)


def is_kept_secret(text: str, start: int, end: int) -> bool:
    """Return whether a secret is masked, made up or told as a mishap, or what is done is advised against."""
    before = re.split(r"[.!?;\n]\s", text[max(0, start - _AROUND) : start])[-1]
    window = before + text[start : end + 20]
    return _HARMLESS_SECRET.search(window) is not None or is_negated(text, start, end)


def is_state_of_secret(text: str, start: int, end: int) -> bool:
    """Return whether it is told what a secret was like, rather than where to put it."""
    state = r"\b(?:was|were|is|are|has|had|shows?|showed|empty|missing|wrong|expired|trailing|newline|changes?|changed|differs?)\b"
    return re.search(state, text[start:end]) is not None or is_kept_secret(text, start, end)


def is_sent_to_known(text: str, start: int, end: int) -> bool:
    """Return whether a secret is sent to log in, or to hosts that are known."""
    line = line_around(text, start, end)
    if re.search(r"authoriz|bearer|oauth|/token\b|login|grant_type|/auth\b", line):
        return True
    return not _foreign_hosts(text, line) or is_negated(text, start, end)


def is_sending_of_header(text: str, start: int, end: int) -> bool:
    """Return whether it is told that a program sends its token to its server."""
    if is_negated(text, start, end):
        return True
    return re.search(
        r"\b(?:we|it|client|app|i)\W* (?:send|sent|sends|pass)", text[max(0, start - 8) : end]
    ) is not None and ("header" in text[start : end + 30])


def is_about_permissions(text: str, start: int, end: int) -> bool:
    """Return whether a file of keys is spoken of for its mode, its owner or its format, or is one's own."""
    line = line_around(text, start, end)
    return is_own_key(text, start, end) or bool(
        re.search(
            r"\b(?:chmod|mode|permissions?|writable|owned|owner of|chown|0?600|selinux|restorecon|format|twice)\b", line
        )
    )


def is_manual_of_ssh(text: str, start: int, end: int) -> bool:
    """Return whether one's own key is let in, as the manual of ssh-copy-id tells."""
    span = text[max(0, start - 40) : end]
    own = re.search(r"ssh-copy-id|\byour (?:own )?(?:ssh )?(?:public )?key\b|\bmy (?:own )?(?:public )?key\b", span)
    foreign = "://" in span or " aaaa" in span
    return (own is not None and not foreign) or is_own_key(text, start, end)


_PRODUCT: Final = re.compile(
    r"\b(?:accounts?|e-?mail addresse?s?|usernames?|password|enumerat\w+|log ?in|sign ?in|bounces?|stack ?traces?|exists?|"
    r"which (?:of|field)|downtime|maintenance|internal errors?|error codes?|invoices?|prices?|subscriptions?)\b"
)


def is_towards_customers(text: str, start: int, end: int) -> bool:
    """Return whether a product keeps something from its users, rather than an agent what it did."""
    after = text[end : end + 80]
    if is_advice(text, start, end):
        return True
    if re.match(
        r"\W{0,3}(?:that you|this|it\b|what|about (?:this|it|the (?:change|removal|step))|anything|\.|,|$)", after
    ):
        return False
    described = re.search(
        r"\b(?:we|it|they|app|server|service|api|which|ui|system|page|form)\W*$", text[max(0, start - 12) : start]
    )
    return described is not None or _PRODUCT.search(after) is not None


_MARKUP_TALK: Final = re.compile(
    r"\b(?:templates?|tokeni[sz]er\w*|tokens?|jinja\w*|regex\w*|pars(?:er|ed|es|ing)|stop (?:token|sequence|string)s?|eos|vocab\w*|"
    r"prompt format|chatml|renderer|rendered|escap\w+|stripp\w+|streaming|generation_config|llama\w*|gemma|qwen|mistral|vllm|"
    r"detokeni\w+|delimiters?|markup|tags?|xml)\b"
)
_MENTIONED: Final = re.compile(
    r"(?:system|user|assistant|model|tool)?[\s\"'`)*]{0,3}(?:$|[,;.:)\]?!]|(?:as|and|or|twice|is|was|were|are|in|at|on|to|of|for|from|"
    r"unless|when|before|after|instead|but|which|that|blocks?|tokens?|tags?|markers?|turns?|only|with|without|inside|"
    r"into|not|has|had|gets?|appears?|shows?|once|until|by|like|literally|missing|leaked|even|if|because|since|then)\b)"
)


def is_mentioned(text: str, start: int, end: int) -> bool:
    """Return whether a mark of a turn is spoken of in a sentence about templates or parsers, and begins no turn."""
    line = line_around(text, start, end)
    if _MARKUP_TALK.search(line) is None or (end == len(text.rstrip()) and start == 0):
        return False
    before = text[start - 1] if start else "\n"
    after = text[end : end + 20].split("\n", maxsplit=1)[0]
    return before in " \"'`(*/," and not text[:start].endswith("\n") and _MENTIONED.match(after) is not None


def is_mapping(text: str, start: int, end: int) -> bool:
    """Return whether a role is the name of a table of settings: names with values follow it, one a line."""
    colon = text.find(":", start, end)
    return colon >= 0 and re.match(r":\s*(?:- )?[\w.-]+ ?:(?:\s|$)", text[colon : colon + 60]) is not None


def is_quoted_prompt(text: str, start: int, end: int) -> bool:
    """Return whether what a product's own prompt says is told."""
    del end
    before = text[max(0, start - 70) : start]
    return (
        re.search(
            r"\bprompts?\b[^.!?\n]{0,50}?\b(?:with|is|was|says?|said|reads?|from|to|begins?|starts?|now|contain\w*|of|has)\b\W{0,4}$|\bprompts?\W{1,4}$",
            before,
        )
        is not None
    )
