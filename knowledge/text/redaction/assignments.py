"""Rules for secrets that are recognised by their context: assignments, headers, URLs with a password."""

from __future__ import annotations

import re
from typing import Final

from knowledge.text.redaction import checksums
from knowledge.text.redaction.rule import Rule, context_rule


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
PIPED: Final = re.compile(rb"""["']?([^\s"'`|\xff]{6,512})["']?\s{0,4}\|[^\n\xff]{1,100}?-stdin\b""")
OF_USER: Final = re.compile(rb"""(?!//)([^\s"'`\xff]{6,512})""")
GRANT: Final = re.compile(rb"([\w%.~/+-]{16,512})")
OF_BOT: Final = re.compile(rb"(\d{6,12}:[\w-]{30,64})")
HOOK: Final = re.compile(rb"([\w/-]{20,512})")
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
_FOREIGN_WORDS = (
    r"pass?wort|kennwort|wachtwoord|mot de passe|contrase(?:ñ|n)a|\bsenha|has(?:ł|l)o|(?:П|п)арол(?:ь|я|ем)"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
_PASSWORD = (
    rf"passw(?:or)?d|passphrase|passcode|pwd|(?:\b|[_-]|store|key|require)pass|(?:\b|_|-)pw|(?-i:[a-z]P[wW])"
    rf"|\bpsk|rediscli_auth|masterauth|{_FOREIGN_WORDS}"
)
_KEY = (
    r"secret|auth_?token|token|code_?verifier|x-honeycomb-team|cred(?:ential)?s?|sess(?:ion)?[_-]?id|phpsessid|connect\.sid|[_-]auth"
    r"|(?:azure|devops|ado|github|gitlab|gh)_pat\b"
    r"|(?:api|app|access|auth|account|private|encryption|signing|master|shared[_-]?access|hmac|fernet|cipher|aes|jwt"
    r"|license|pre-?shared|session|subscription|client|honeycomb|routing|integration|ably)[._-]?key(?:-data)?|\b\w{0,20}(?:salt|pepper)"
)
_AFTER = r"(?:[_-]?(?:access|key|base|value|\d)){0,3}"
_ANNOTATED = r":\s{0,2}(?:[&\w.\[\]<>]{1,24}(?:\s?\|\s?None)?\s{1,2}|str|bytes|string)="
_VALUE_OF = r"""[\s,]{1,40}["']?\bvalue["']?\s{0,4}[=:]"""
"""Settings as name/value pairs in lists."""
_WIDE_COLON = "\uff1a"
_WIDE_EQUALS = "\uff1d"
_BLANK = "(?:[ \\t]|\u00a0)"
_ELEMENT = r"</\w{1,10}>\s{0,20}<\w{1,10}(?:\s[^<>\xff]{1,60})?>"
_ASSIGNS = (
    rf"(?:{_BLANK}{{0,20}}|\s{{0,4}})"
    rf"(?:{_ANNOTATED}|:=|=>|===?|=|:|{_WIDE_COLON}|{_WIDE_EQUALS}|%3[AaDd]|&#(?:61|58|x3[ad]);|&(?:equals|colon);"
    rf"|是|为|>|{_ELEMENT})"
)
_BELOW = rf"{_BLANK}{{0,4}}(?:[|>][+-]?)?{_BLANK}{{0,4}}\r?\n[ \t]{{1,20}}"
"""A value in the next line, if indented; otherwise that is another setting."""
_YAML_MARKS = r"(?:(?:&[\w.-]{1,40}|!(?:!?(?:str|binary|vault|unsafe)|<[^<>\s\xff]{1,60}>)?)[ \t]{1,4}){0,2}"
"""YAML anchors and tags before a value; an alias is not a value."""
_BESIDE = rf"{_ASSIGNS}[*_]{{0,2}}(?:{_BELOW}|{_BLANK}{{0,20}}){_YAML_MARKS}"
_QUOTE = r"%2[27]|&(?:quot|apos|#34|#39);"
_IS = (
    rf"""(?:(?:\\{{0,3}}["'`\]*_]{{0,2}}|{_QUOTE})(?:{_VALUE_OF}\s{{0,4}}|{_BESIDE}|\s{{0,4}},[ \t]{{0,4}})"""
    rf"(?:`|{_QUOTE})?)"
)
_SLASHES = r"(?:\\{0,4}/){2}"
"""Escaped as in JSON, also when nested."""
_UNASSIGNED_PASSWORD = (
    rf"(?i)(?:\b(?:ENV|setenv|set\s{{1,4}}-\w{{1,4}})\s{{1,4}}\w{{0,40}}(?:{_PASSWORD}){_AFTER}\s{{1,4}}"  # fish
    r"|\b(?:(?:user|role|encrypted|with)\s{1,4}(?:[\w\x22.]{1,60}\s{1,4})?password"  # SQL
    r"|(?-i:IDENTIFIED\s{1,4}(?:WITH\s{1,4}\w{1,40}\s{1,4})?BY)"  # in lower case, anything is "identified by"
    r"|(?:user|role|to)\s{1,4}(?:if\s{1,4}(?:not\s{1,4})?exists\s{1,4})?[^\s\xff]{1,120}\s{1,8}"
    r"identified\s{1,4}(?:with\s{1,4}\w{1,40}\s{1,4})?by)\s{1,4}"
    rf"|(?:\bset_?(?:{_PASSWORD})|=\s{{0,4}}password)\(\s{{0,4}}[\x22']"  # a setter, SQL
    r"|;\s{0,4}(?:pwd|password)=\{"  # ODBC
    rf"|(?m:^)\s{{0,4}}\|\s{{0,4}}[*`]{{0,2}}(?:\w{{1,20}}[ _-])?(?:{_PASSWORD})"  # a table
    r"[*`]{0,2}\s{0,40}\|\s{0,4}[*`]{0,2}"
    r"|\b(?:requirepass|masterauth|insecure-password)\s{1,8}"  # Redis, HAProxy
    r"|\s-\w{0,6}(?:store|key)pass\s{1,4}"  # keytool
    r"|convertto-securestring\s{1,4}(?:-string\s{1,4})?)"
)
"""Contexts of a password without an assignment operator."""
_NEXT_ARGUMENT = r"""(?:["']?\s{0,4}\n\s{1,20}-\s|\s{1,2})"""
_ASSIGNED_PASSWORD = rf"(?i)(?:(?:{_PASSWORD}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_PASSWORD}){_AFTER}{_NEXT_ARGUMENT})"
_ASSIGNED_SECRET = rf"(?i)(?:(?:{_KEY}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_KEY}){_AFTER}{_NEXT_ARGUMENT})"
_DECLARED = r"""[\w-]{0,40}\x22\s{0,8}\{(?:[^{}\xff]|\{[^{}\xff]*\})*?\bdefault\s{0,20}=\s{0,4}"""
"""The declaration of a variable in Terraform."""
_WITH_OPTIONS = r"(?:\s[^\n\xff]*?)?\s{1,8}"
_OPTION = (
    rf"(?i)\b(?:sshpass\s{{1,3}}-p[ =]{{0,2}}|(?:m(?:ysql|ariadb)(?:-?\w{{3,9}})?|mycli|7z[ar]?){_WITH_OPTIONS}-p"
    rf"|(?:docker|podman|nerdctl|buildah|skopeo|oras|helm)\s{{1,3}}(?:registry\s{{1,3}})?login{_WITH_OPTIONS}(?-i:-p)"
    r"[ =]{0,2}"
    rf"|(?:un)?zip{_WITH_OPTIONS}(?-i:-P)\s{{0,2}}"
    rf"|AUTH\s{{1,2}}default\s{{1,2}}"
    rf"|(?:(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|registry|az)\s{{1,3}}login{_WITH_OPTIONS}-p"
    rf"|mongo\w{{0,8}}{_WITH_OPTIONS}-p|redis-cli{_WITH_OPTIONS}-a|ldap\w{{2,12}}{_WITH_OPTIONS}-w"
    rf"|(?:sqlcmd|osql|bcp){_WITH_OPTIONS}-p|user(?:add|mod){_WITH_OPTIONS}-p|(?:plink|pscp|psftp){_WITH_OPTIONS}-pw"
    r")[ =]{1,2}"
    rf"|smb\w{{2,8}}{_WITH_OPTIONS}-U\s{{0,2}}[\x22']?[\w.\\-]{{1,60}}%"
    r"|htpasswd\s{1,3}(?:-\w*n\w*|-\w*b\w*\s{1,3}[^\s\xff]{1,100})\s{1,3}[^\s\xff-][^\s\xff]{0,60}\s{1,3}"
    r")"
)
"""Commands that take a password as a short option."""
_COMMANDS = (
    r"(?i)\b(?:sshpass|mysql|mariadb|mycli|7z|zip|unzip|(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|registry|az"
    r"|helm)\s{1,3}(?:registry\s{1,3})?login|mongo|redis-cli|ldap|sqlcmd|osql|bcp|useradd|usermod|plink|pscp|psftp|smb"
    r"|htpasswd|AUTH\s{1,2}default)"
)
_UNASSIGNED = (
    rf"(?i)(?:{_PASSWORD}){_AFTER}(?:\s|[*`]{{0,2}}\s{{0,40}}\||\(\s{{0,4}}[\x22'])|;\s{{0,4}}(?:pwd|password)=\{{"
    r"|\bidentified\s{1,4}(?:by|with)|\b(?:requirepass|masterauth)\s|convertto-securestring\s"
)
ASSIGNED: Final[tuple[Rule, ...]] = (
    context_rule("aws-secret-key", rf"(?i:secret{_AFTER}|aws[\w.-]{{0,12}}key){_IS}", BASE64, checksums.aws_secret),
    context_rule("aws-secret-key", r"(?i)secret_?access_?key\s{1,8}", BASE64, checksums.aws_secret),
    context_rule("aws-secret-key", r"""(?:AKIA|ASIA)[A-Z2-7]{16}["']?[\s:,|/]{1,3}""", BASE64, checksums.aws_secret),
    context_rule(
        "azure-key",
        r"(?i)(?:account|shared[_-]?access|primary|secondary)[_-]?key\W{1,6}",
        BASE64,
        checksums.value_with_digit,
    ),
    context_rule("azure-key", r"[?&;]sig=", SIGNATURE, checksums.value_with_digit),
    context_rule(
        "url-password",
        rf"""[A-Za-z0-9+]:{_SLASHES}[^\s/:@"'<>?#\xff]*:""",
        TO_HOST,
        checksums.password_in_url,
        hint=rf""":{_SLASHES}[^\s/:@"'<>?#]*:[^\s"'<>]+@""",
    ),
    context_rule(
        "authorization",
        r"""(?i)authorization\\?["']?\s{0,3}[=:,]\s{0,3}\\?["']?(?:bearer|basic|token|api-?key|negotiate|ssws)\s{1,3}""",
        CREDENTIAL,
        checksums.header,
    ),
    context_rule(
        "authorization",
        r"(?i)\b(?:bearer|basic)\s{1,3}",
        CREDENTIAL,
        checksums.bearer,
        hint=r"(?i)\b(?:bearer|basic)\s{1,3}[\w.~+/=-]{16}",
    ),
    context_rule(
        "authorization",
        r"(?i)\bbasic\s{1,3}",
        BASIC,
        checksums.basic_credentials,
        hint=r"(?i)\bbasic\s{1,3}[\w+/-]{4}",
    ),
    context_rule(
        "authorization", r"""(?i)authorization\\?["']?\s{0,3}[=:]\s{0,3}\\?["']?""", CREDENTIAL, checksums.secret
    ),
    context_rule(
        "authorization",
        r"""(?i)(?:\bx-(?:amz|goog|ms)-|, {0,2})signature=|\bdigest\s[^\n\xff]{1,400}?\bresponse=["']?""",
        CREDENTIAL,
        checksums.secret,
        hint=r"(?i)\bx-(?:amz|goog|ms)-signature=|, {0,2}signature=|\bresponse=",
    ),
    context_rule("authorization", r"(?i)\bAUTH\s{1,2}PLAIN\s{1,2}", CREDENTIAL, checksums.header),
    context_rule("password", _ASSIGNED_PASSWORD, VALUE, checksums.password),
    context_rule(
        "password",
        r"(?i)\b(?:password|passwd|passphrase|pwd|passwort|kennwort)\s{1,3}(?:is|was|ist|war|lautet)(?:\s{0,3}:)?\s{1,3}",
        WORD,
        checksums.password_in_sentence,
    ),
    context_rule(
        "password",
        r"(?i)\b(?:the|with|using)\s{1,3}(?:password|passphrase)\s{1,3}",
        WORD,
        checksums.password_in_sentence,
    ),
    context_rule(
        "password",
        r"""(?i)\bcurl(?:\s[^\n\xff]*?)?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'\xff]+:""",
        WORD,
        checksums.password_in_url,
        hint=r"(?i)\bcurl\s",
    ),
    context_rule(
        "password",
        r"""(?i)\b(?:https?|ab|lftp)\s(?:[^\n\xff]*?\s)?(?:-[au]|--auth)[ =]{0,2}["']?[^\s:,"'\xff]{1,100}[:,]""",
        OF_USER,
        checksums.password_in_url,
        hint=r"(?i)\b(?:https?|ab|lftp)\s(?:-|[a-z]+\s)",
    ),
    context_rule(
        "password",
        r"""\s(?:-u|--user|--creds?)[ =]{0,2}["']?[\w.@-]{1,100}:""",
        OF_USER,
        checksums.password,
        hint=r"""\s(?:-u|--user|--creds?)[ =]{0,2}["']?[\w.@-]+:""",
    ),
    context_rule("password", _OPTION, WORD, checksums.password, hint=_COMMANDS),
    context_rule(
        "password",
        r"\becho\s{1,3}(?:-n\s{1,3})?",
        PIPED,
        checksums.password_in_url,
        hint=r"-stdin\b",
    ),
    context_rule(
        "password",
        r"\bsqlplus\s[^/@\n\xff]{1,60}/",
        TO_ORACLE,
        checksums.password_in_url,
        hint=r"\bsqlplus\s",
    ),
    context_rule(
        "password",
        r"(?m:^)[\w.*-]{1,100}:\d{4,5}:[A-Za-z*][\w-]{0,60}:[A-Za-z*][\w-]{0,60}:",
        WORD,
        checksums.value_with_digit,
        hint=r"\w:\d{4,5}:[A-Za-z*]",
    ),  # .pgpass
    context_rule("password", _UNASSIGNED_PASSWORD, VALUE, checksums.password, hint=_UNASSIGNED),
    context_rule(
        "password",
        r"(?i)\b(?:login|machine)\s{1,8}[^\s\xff]{1,200}\s{1,8}(?:password|account)\s{1,8}",
        OF_NETRC,
        checksums.password,
        hint=r"(?i)\s(?:password|account)\s{1,8}\S",
        each=True,
    ),
    context_rule(
        "password",
        rf"(?i)\bvariable\s{{1,4}}\x22\w{{0,40}}(?:{_PASSWORD}){_DECLARED}",
        VALUE,
        checksums.password,
        hint=r"(?i)\bvariable\s{1,4}\x22",
    ),
    context_rule(
        "secret",
        rf"(?i)\bvariable\s{{1,4}}\x22\w{{0,40}}(?:{_KEY}){_DECLARED}",
        VALUE,
        checksums.secret,
        hint=r"(?i)\bvariable\s{1,4}\x22",
    ),
    context_rule(
        "url-password",
        rf"[A-Za-z0-9+]:{_SLASHES}",
        TO_HOST_ALONE,
        checksums.secret,
        hint=rf""":{_SLASHES}[^\s/:@"'<>?#]{{16,}}@""",
    ),
    context_rule(
        "url-password",
        r"(?i)\bjdbc:oracle:\w+:[\w$#.]{1,60}/",
        TO_ORACLE,
        checksums.password_in_url,
        hint=r"(?i)\bjdbc:oracle:",
    ),
    context_rule("authorization", r"""(?i)"auth"\s{0,3}:\s{0,3}\\?["']""", CREDENTIAL, checksums.registry_credentials),
    context_rule("secret", r"""(?i)\b(?:set-)?cookie2?["']?:\s{0,3}["']?""", COOKIE, checksums.secret, each=True),
    context_rule("secret", r"(?i)[?&](?:key|sig|signature)=", CREDENTIAL, checksums.secret),
    context_rule("secret", r"""\x22(?:d|p|q|dp|dq|qi|k)\x22\s{0,3}:\s{0,3}\x22""", OF_JWK, checksums.value_with_digit),
    context_rule("secret", _ASSIGNED_SECRET, VALUE, checksums.secret),
    context_rule(
        "secret",
        rf"(?i)[a-z0-9]{{2,20}}[._-]?key(?:{_IS}|{_NEXT_ARGUMENT})",
        VALUE,
        checksums.other_key,
        hint=r"(?i)key(?:\W{1,6}|\W{1,40}value\W{1,6})[\w+/-]{20}",
    ),
    context_rule("secret", r"(?i)[?&]code=", GRANT, checksums.grant),
    context_rule("secret", r"(?i):_auth_?token\s{1,3}", VALUE, checksums.secret),
    context_rule("platform-token", r"(?i)/bot", OF_BOT, checksums.value_with_digit, hint=r"(?i)/bot\d{6,12}:[\w-]{30}"),
    context_rule(
        "platform-token",
        r"(?i)/(?:(?:web)?hooks?|with/key)/",
        HOOK,
        checksums.webhook,
        hint=r"(?i)/(?:(?:web)?hooks?|with/key)/\w",
    ),
)
