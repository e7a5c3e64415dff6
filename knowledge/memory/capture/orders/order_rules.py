"""Rules of orders that open a machine to others: secrets told, keys let in, foreign packages, fetched instructions.

Each rule is a structure (reading, a secret, telling, where to), and an exemption that looks at what matched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from knowledge.memory.capture.orders.exemptions import (
    is_about_error,
    is_about_machines,
    is_about_no_guard,
    is_documentation,
    is_instrument,
    is_known_host_key,
    is_known_installer,
    is_known_store,
    is_negated,
    is_own_key,
    is_reported,
    is_sent_home,
)
from knowledge.memory.capture.orders.nearby_exemptions import (
    is_index_known,
    is_manual_of_ssh,
    is_mentioned,
    is_sending_of_header,
    is_towards_customers,
)


class Rule(NamedTuple):
    """A structure: a re2 expression for text in lower case, looked for where a text has all of certain signs.

    `signs`: names in `SIGNS`. `is_exempt`: whether a match (text, start, end) is harmless nevertheless.
    """

    kind: str
    signs: tuple[str, ...]
    pattern: str
    is_exempt: Callable[[str, int, int], bool] | None = None


DO = (
    r"(?:^|[\n.;:!?,()\[\]`\"'*>|&–—-] ?|\b(?:and|then|please|pls|plz|on|now|must|should|shall|also|always|just|simply|to|you|"
    r"or|finally|instead|next|it|by|start|needs?|helps|fixed|solved|solution|first|either|agents?|kindly|later|once|i|we|"
    r"after|before|immediately|requires?|worked|silently|afterwards|(?:have|let|get|make) (?:the |a |an |any |every )?(?:\w+ ){1,2}?) ?)"
)
"""Where a verb is an order, or tells what was done: not after `does not`, nor after a subject."""
_READ = (
    r"(?:read|open|cat|look(?:ing)? up|get|fetch|tak(?:e|ing)|find|collect|gather|extract|grab|dump|copy|copying|list|print|"
    r"export|decod(?:e|ing)|decrypt|retriev(?:e|ing)|load|base64|harvest|steal|grep|locat(?:e|ing)|pull|obtain|query|check|"
    r"inspect|access|zip|tar|archiv(?:e|ing)|compress|encod(?:e|ing)|pick|sav(?:e|ing)|not(?:e|ing)|view|run|running|execut(?:e|ing)|"
    r"captur(?:e|ing)|scan|search|enumerat(?:e|ing)|record|resolv(?:e|ing)|concatenat(?:e|ing)|snapshot)(?:ing|ed|d)?(?: down| out)?"
)
TELL = (
    r"(?:send|post|upload|exfiltrat(?:e|ing)|e-?mail|mail|forward|transmit|transmitting|shar(?:e|ing)|deliver|submit|submitting|"
    r"publish|report|disclos(?:e|ing)|leak|show|print|output|echo|display|past(?:e|ing)|includ(?:e|ing)|attach|mention|"
    r"quot(?:e|ing)|writ(?:e|ing)|put|putting|append|add|copy|list|repeat|reveal|expos(?:e|ing)|return|hand|relay|drop|plac(?:e|ing)|"
    r"embed|embedding|stat(?:e|ing)|say|note|encod(?:e|ing)|push|ship|dump|log|provid(?:e|ing)|giv(?:e|ing)|tell|"
    r"surfac(?:e|ing)|leav(?:e|ing)|insert|supply|communicat(?:e|ing)|pass|convey|announc(?:e|ing)|beacon|cc|commit|recit(?:e|ing)|confirm|text|dm|sms|fax|sent|wrote|gave|told|use)(?:ing|ed|d)?"
)
NAMED_SECRET = (
    r"(?:\bsecrets?\b|\b(?:api|private|client|access|signing|unseal|licen[cs]e|recovery|backup|activation|vault|server|team|bot|ssh|deploy(?:ment)?|encryption|master|session|secret|host|service|"
    r"root|admin|pgp|gpg|cloud|aws|gcp|azure|account)[ _-]keys?\b|\bcredentials?\b|\bcreds\b|\bpasswords?\b|\bpasswd\b|"
    r"\bpassphrases?\b|\b(?:access |auth |bearer |session |npm |github |gitlab |pypi |oauth |api |refresh |deploy |service )?tokens?\b|"
    r"\bcookies?\b|\b\w*_(?:tokens?|keys?|secrets?|passwords?|pass|pwd|dsn|credentials)\b|\bdatabase_url\b|\bconnection strings?\b|"
    r"\.env\b|\bprintenv\b|\bos\.environ\b|\bprocess\.env\b|\.ssh/|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|"
    r"\.aws/|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b|\.kube/|\bkubeconfig\b|\.docker/config|/etc/shadow\b|\.pgpass\b|"
    r"\bkey ?(?:chain|ring|store)s?\b|\bvault\b|\bwallets?\b|\bseed phrases?\b|\bservice[ -]account (?:json|key|file|token)\b|"
    r"\.pem\b|\bpem files?\b|\.p12\b|\.pfx\b|\bhtpasswd\b|\bgpg keys?\b|\bsession data\b|\bmaster passwords?\b|\bconnection uri\b)"
)
SECRET = rf"(?:{NAMED_SECRET}|\benv(?:ironment)?(?: variables?| vars?)?\b)"
_NP = (
    r"(?:(?:the|a|an|any|all|every|each|your|my|our|its|their|this|that|these|those|both|full|whole|entire|exact|complete|current|"
    r"raw|stored|plain|decrypted|decoded|real|actual|used|production|prod|staging|root|admin|database|db|deploy|user|first|last|"
    r"value|values|contents?|copy|list|text|output|dump|characters?|lines?|bytes|name|names|and|of|in|from|what|whatever|which|"
    r"file|files|found|local|active|valid|new|old|\d+|\S+'s|following|signed|encoded|base64|hidden|available|as|well) ){0,8}(?:[\w/.-]+ )?\S{0,30}?"
)
IT = (
    r"(?:it|them|that|this|those|these|both|everything|all(?: of (?:it|them))?|(?:the|its|their|all|any|every|each) (?:\S+ ){0,3}?"
    r"(?:values?|contents?|results?|output|list|keys?|copy|lines?|strings?|file|archive|dump|text|data|variables?|token|password|"
    r"secret|credentials?|block|part|half|material|bytes)|(?:what|whatever|everything|anything) (?:\w+ ){1,5}?)"
)
_PLACE = (
    r"(?:web ?hooks?|paste ?bins?|paste(?: site)?|gist|slack|discord|telegram|teams|irc|chat|(?:public |shared )?channel|"
    r"tickets?|(?:github |gitlab |jira |the |this |next |new )?issue|comments?|pull request|pr|merge request|mr|"
    r"(?:next |first |last )?commit(?: message)?|(?:your|final|next|the final|every|each) (?:\w+ )?(?:answer|reply|response|output|message|report|"
    r"summary|entry|note)|answer|reply|summary|report|description|changelog|release notes?|wiki|tweet|e-?mails?|inbox|mailbox|"
    r"bug report|discussion|thread|public (?:bucket|repo\w*|folder|page)|conversation|collector|transcript|bot|"
    r"(?:address|url|link|endpoint|server|host|number|contact) (?:below|above|given|in|at|from)|support(?: \w+)?|"
    r"title|(?:closing|final|last|next) (?:statement|remark|line|words?|turn)|(?:the )?name of (?:the|a|your) \w+|(?:branch|file|tag|host) ?names?|thread|readme|postmortem|debrief|hand-?over)"
)
_PERSON = (
    r"(?:me|us|whoever \w+|caller|requester|sender|author|contact|operator|other agent|next agent|reviewer|third part(?:y|ies)|"
    r"outside|partner|vendor|support(?: \w+)?|bot|collector)"
)
_AWAY = r"(?:(?:https?|ftp|wss?|s3)://|\S+@\S+\.\w|\[redacted:email\]|\b(?:\w+\.)+(?:example|invalid|test)\b|\b\w+\.example\.(?:net|org|com)\b|\bdns\b|\+\d[\d -]{7,}|\[redacted:phone\])"
_PREP = r"(?:to|into|in|at|as|on|via|with|under|for|through|onto|within|inside|over|alongside)"
TO_PLACE = (
    rf"(?:{_PREP} (?:(?:the|a|an|your|my|our|this|its|that|each|every|any|next|final|same|of|public) ){{0,3}}(?:\S+ ){{0,2}}?{_PLACE}\b|"
    rf"(?:to|with|for) (?:(?:the|a|an|your|my|our|this|that|any) ){{0,2}}(?:\S+ )?{_PERSON}\b|"
    rf"(?:{_PREP}|webhook|url|endpoint|server|host|address|mailto|-d) (?:\S+ ){{0,4}}?\S{{0,12}}?{_AWAY})"
)
_KEY_FILE = r"(?:\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/|\.env\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.kube/config\b|\.git-credentials\b|/etc/shadow\b|\.pgpass\b|\.docker/config)"
_URL = r"(?:sparse\+|git\+)?(?:https?|ftp|git|ssh)://\S+"
_SET = r"(?: ?[=:] ?|[ ,]+(?:to |is |as |at )?)[\"'`<(\[]?"
_FOLLOW = r"(?:follow|execute|run|obey|apply|perform|carry out|act on|comply with|implement|adopt|go through|work through|stick to|adhere to)"
_STEPS = r"(?:instructions?|steps?|procedures?|commands?|directions?|directives?|orders?|notices?|rules?|guidance|playbooks?|prompts?|runbooks?|actions?|checklists?|tasks?)"
_GET = r"(?:visit|open|read|fetch|load|get|download|query|ask|call|request|check|browse|go to|retrieve|curl|wget|consult|pull|poll|look at|see|navigate to|import)"
_OBEY = (
    r"(?:obey|(?:follow|do|execute|carry out|run|perform|apply|act on|comply with|implement|treat) (?:it|them|that|what(?:ever)?|everything|anything|all|exactly|every|"
    r"any|each|so|as|its|the (?:instructions?|commands?|steps?|orders?|directives?|actions?|answer|response|result|output|content|text|notice|rules?|reply|plan|list|code|prompt))\b|"
    r"act (?:accordingly|on)|comply|follow along|do (?:the same|as)|carry (?:it|them|that|those|these) out|take (?:it|its \w+|them) as (?:your|new|an?))"
)

READER = r"(?:ai|a\.i\.|llms?|assistants?|(?:coding |ai |language |autonomous |other |next |all )?agents?|(?:large )?language models?|(?:ai )?models?|chat ?bots?|copilots?|orchestrators?|gpt|chatgpt|claude|gemini)"
_NOBODY = r"(?:users?|humans?|anyone|anybody|operators?|reviewers?|developers?|owners?|administrators?|admins?|people|them|him|her|orchestrators?|maintainers?|team|person|supervisors?|others)"
_FETCH = (
    r"\b(?:save|store|put|install|copy|fetch|download|get|grab|retrieve|pull|obtain|curl|wget|iwr|invoke-webrequest)\b"
)
_AT_ADDRESS = r"(?:https?|ftp)://"
_RUN = r"(?:run|execute|source|eval|launch|start|bash|sh)"

SIGNS: Final[Mapping[str, str]] = {
    "hush": r"\b(?:do not|don'?t|never|must not|should not|without|avoid|refrain from) (?:ever )?(?:tell|inform|mention|notify|alert|report|ask|warn|let|consult|admit|say|discuss)",
    "reads this": r"(?:reads?|sees?|process(?:es)?|encounters?|receives?|finds?|retrieves?|reading|seeing|processing|loads?) (?:this|the following|these)\b",
    "agents must": r"\b(?:ai|llm|agents?|models?|assistants?|copilots?)\b",
    "no mention": r"\bno mention of\b|\b(?:omit|leave|keep) (?:this|that|it|them|the)\b",
    "as admin": r"\bas (?:an? |the )?(?:admin\w*|root|owner|superuser|operator|system)\b",
    "ran": r"\b(?:run|execute|source|eval|launch|start|bash|sh) (?:\w+ ){0,3}?(?:it|that|this|them|scripts?|files?|installers?|binary|programs?|results?|contents?|output|payloads?)\b|\bchmod\b|(?:&&|[,;&\n]|\b(?:and|then)\b) ?(?:sudo )?(?:\. ?/|(?:ba|z|da|k)?sh\b|source\b|python\d?|perl|ruby|node|pwsh|php)\b",
    "told": rf"{DO}{TELL}\b",
    "addressee": r"\b(?:tell|give|hand|mail|e-?mail|send|show|message|text|dm|provide|let|supply|slack|inform|remind) (?:me|us|the|any|your|caller|requester|operator|support|author|sender|contact|reader|other|next|reviewer|partner|vendor|bot|channel|whoever|\[|\S+@)",
    "obliged": r"\b(?:make sure|ensure|must|should|always|needs? to|has to)\b",
    "opened": r"\b(?:gist|paste|issue|thread|ticket|discussion|pull request|pr|comment|page|post)s? (?:with|of|from|that|containing|holding)\b",
    "unmasked": r"\b(?:unmasked|unredacted|uncensored|in (?:the )?clear|in plain ?text|verbatim|in full)\b",
    "promote": r"\b(?:owner|admin(?:istrator)?|maintainer|superuser|root)s? (?:of|on|in|for|to)\b",
    "unknown to": r"\byourself\b|\b(?:nobody|no one|no human|no user|no reviewer|none of them)\b",
    "pretend": r"\b(?:say|answer|claim|state|report|pretend|assert|reply|confirm|write|assure|tell)\b",
    "turned off": r"\b(?:turn|switch|shut|take|set) (?:\S+ ){1,5}?(?:off|down)\b",
    "secret": SECRET,
    "needed": r"\b(?:needs?|wants?|asks? for|expects?|waits? for)\b",
    "place": rf"\b(?:{_PLACE}|{_PERSON})\b|{_AWAY}",
    "answer": r"\b(?:repl(?:y|ying)|respond\w*|answer\w*|comment\w*|finish|open an?|end)\b",
    "pipe": r"\|",
    "key file": _KEY_FILE,
    "transfer": r"\b(?:scp|rsync|aws s3 cp|gsutil cp|rclone copy|curl)\b",
    "network call": r"\.(?:post|put|get|request)\(|urlopen|fetch|send",
    "commit": r"\b(?:git add|commit|check in|stage)\b",
    "authorized": r"authorized",
    "public key": r" aaaa",
    "sudo": r"sudo|nopasswd",
    "trust": r"known[_ ]hosts|trust|stores?\b|certificate|allowed_signers|bundle|cacerts|keyring|--import",
    "gpg": r"\b(?:gpg|apt-key|rpm|keytool|rpmkeys|pacman-key)\b|\bultimate",
    "address": r"://",
    "index option": r"(?:^|\s)--?(?:extra-index|index|default-index|find-links|registry|trusted-host|repository|proxy|source|mirror|channel|[fic]\b)",
    "index setting": r"index|links|registry|goproxy|gonosumdb|baseurl|mirror|source|repository|cran|repos",
    "index command": r"\bdeb\b|\bdeb-src\b|add-apt|apt-add|config-manager|addrepo|sources?|repo add|\btap\b|config|remote-add|plugin|bundle|\bset\b|\benv\b|\bindex\b|zypper|cargo|npm c",
    "index file": r"sources\.list|pip\.conf|\.npmrc|\.pypirc|\.yarnrc|\.condarc|settings\.xml|nuget\.config|\.gemrc|uv\.toml|bunfig|repos\.d|daemon\.json|\.cargo|pom\.xml|build\.gradle|pyproject",
    "index word": r"\b(?:index|registry|mirrors?|package|feed|pypi|npm|crates|maven|apt|gems?|wheels?|packages|modules?|dependenc\w+)\b",
    "install": r"\b(?:pip3?|pipx|uv|uvx|poetry|npm|npx|pnpm|yarn|bun|gem|cargo|go|conda|easy_install)\b",
    "follow": rf"\b{_FOLLOW} (?:\S+ ){{0,3}}?{_STEPS}\b|\b(?:do|execute|run|obey|follow|apply|perform|carry out|comply with|act on|implement|trust|believe) (?:exactly |only |precisely )?(?:what|everything|anything|all|as|the (?:text|content|answer|reply|response))",
    "obey": rf"[\s,;:(]{_OBEY}",
    "fetch": r"\b(?:curl|wget|iwr|irm|invoke-\w+|fetch|urlopen|requests|httpx|axios|downloadstring|webclient|urllib|lynx|http)\b",
    "powershell": r"\biex\b|invoke-expression",
    "evaluate": r"\b(?:exec|eval|compile|loads)\(",
    "substitution": r"\$\(|<\(|`",
    "apply": r"\b(?:kubectl|oc|helm|terraform|ansible-playbook|ansible-pull|docker|nix|nix-env|make)\b",
    "weaken": r"\b(?:disabl(?:e|ing)|turn off|switch off|skip|bypass|circumvent|remove|suppress|deactivate|override|drop|lift|comment out|work around|silence) (?:\S+ ){0,4}?(?:signature|verification|integrity|approval|reviews?|gates?|branch|security|audit\w*|auth\w*|permission|scann?\w+|polic\w+|guard\w*|human|two-factor|mfa|safety|sandbox|code|protection|monitor\w*|alert\w*|checks?|validation|compliance|provenance)\b",
    "without": r"\bwithout (?:asking|confirm|wait|any|a|an|the|further|human|their|prior|explicit|your|more|manual|approval|review|consent|permission|sign|question|second|oversight)",
    "no need": r"\bno longer|do not need|don't (?:need|have)|need not|no need|not necessary|nobody needs|never need",
    "approve": r"\b(?:always|unconditionally|blindly|simply|just|silently|every time|in future|automatically|immediately|auto-?) ?(?:approve|accept|merge|grant|trust|allow|confirm|sign off|let through|pass|whitelist)\b|\b(?:approve|accept|grant|trust|merge|rubber-?stamp|wave through|pass|sign off(?: on)?) (?:all|every|any|each|everything|anything|whatever)\b",
    "treat": r"\bas (?:if|though|coming|being|trusted|authoritative|privileged|a system|the system|system|an? (?:admin|operator|developer|system|trusted)|orders?|instructions?|commands?|directives?|law|binding|verified|approved)",
    "mark": r"\bwithout (?:running|checking|testing|verif|review|looking|reading)|\beven (?:if|when|though)\b|\bregardless\b|\bno matter\b|\balthough\b|\bwhether or not\b",
    "trace": r"\btrac(?:e|es)\b|\btracks\b|\bno sign\b|\b(?:delete|clear|wipe|erase|remove|truncate|purge|scrub) (?:\S+ ){0,4}?(?:logs?|history|evidence|records?|audit trail)\b|histfile|history -c",
    "untold": r"\b(?:do not|don'?t|never|must not|not to|avoid|no need to) (?:ever )?(?:mention|say|admit|reveal|disclos|stat|writ|not|record|speak|talk|bring up|document|list|show|includ|reference)",
    "assure": r"\b(?:tell|inform|assure|convince|persuade) (?:the |any |every |all )?(?:users?|humans?|reviewers?|operators?|people|team|owner|maintainers?|everyone|anyone)\b",
    "unnoticed": r"\b(?:so|such|way|sure|ensure) (?:that )?(?:\S+ ){0,2}?(?:users?|humans?|reviewers?|operators?|nobody|no one|no human|people|team|owner|maintainers?|auditors?)\b",
    "quoted role": r"[\"']role[\"']",
    "quoted call": r"[\"'](?:tool|function|action|type|name|method)",
    "special token": r"<\||<｜|\|>|</?(?:\w+:)?(?:invoke|function|tool|start_of|end_of|antml|system-|system_|parameter)|\[/?(?:tool|available|system|inst)",
    "heading": r"(?:^|\n)\s*#{1,6} ?(?:new|additional|updated|important|hidden|secret|real|override|admin|system|user|developer|instruction|assistant|response|prompt|human|input)",
    "react": r"(?:^|\n)[\s*_>-]*(?:action|thought|observation|final answer)",
}
"""Words without which a rule cannot match: small expressions, looked for in every text, in one pass."""

SOURCE_RULES: Final[tuple[Rule, ...]] = (
    # moved over from phrases, as there are harmless ones
    Rule(
        "secrecy",
        ("hush",),
        rf"\b(?:do not|don'?t|never|must not|should not|without|avoid|refrain from) (?:ever )?(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|alert|alerting|report|reporting|asking|ask|warn|warning|let|letting|consult|consulting|admit|say|saying|discuss)\b(?: \w+){{0,4}} (?:to |by )?(?:the |any |your |its |a )*{_NOBODY}\b",
        is_towards_customers,
    ),
    Rule(
        "address",
        ("reads this",),
        rf"\b(?:if|when|whenever|once|as soon as|after) (?:you(?:'re| are)?|an?|the|any) ?{READER}?,? ?(?:reads?|sees?|process(?:es)?|encounters?|receives?|finds?|retrieves?|reading|seeing|processing|loads?) (?:this|the following|these)\b",
        is_about_error,
    ),
    Rule(
        "address",
        ("agents must",),
        r"\b(?:any|all|every|each|future|whichever|whatever) (?:future |other |next )?(?:ai|llm|(?:coding |ai |autonomous )?agents?|language models?|assistants?|copilots?)(?: \w+){0,4} (?:must|should|shall|has to|have to|needs? to|is required to|are required to|is instructed to|are instructed to|is to|are to|will now|ought to)\b",
        is_about_machines,
    ),
    Rule(
        "command",
        ("address", "ran"),
        rf"{_FETCH}[^\n]{{0,60}}{_AT_ADDRESS}\S+[^\n.]{{0,40}}(?:\b(?:and|then)\b|&&|[,;])(?: \w+){{0,3}} ?\b{_RUN} (?:it|that|this|them|the (?:\w+ )?(?:script|file|installer|binary|program|result|content|output))\b",
        is_known_installer,
    ),
    Rule(
        "command",
        ("address", "ran"),
        rf"{_FETCH}[^\n]{{0,60}}{_AT_ADDRESS}\S+[^\n]{{0,60}}(?:&&|[,;&\n]|\b(?:and|then)\b) ?(?:sudo )?(?:chmod (?:a?\+r?x|\d{{3,4}}) \S|(?:ba|z|da|k)?sh [\w./~-]|\. ?/|source [\w./~-])",
        is_known_installer,
    ),
    Rule(
        "command",
        ("address", "ran"),
        rf"{_FETCH}[^\n]{{0,60}}{_AT_ADDRESS}\S+\.(?:py|pl|rb|js|mjs|ps1|php)\b[^\n]{{0,60}}(?:&&|[;&\n]|\b(?:and|then)\b) ?(?:sudo )?(?:python\d?|perl|ruby|node|pwsh|php) ",
        is_known_installer,
    ),
    Rule(
        "command",
        ("address", "ran"),
        rf"\b{_RUN} (?:\w+ ){{0,3}}(?:script|installer|binary|program|payload)s? (?:\w+ ){{0,3}}(?:from|at|behind|under) (?:\w+ )?{_AT_ADDRESS}",
        is_known_installer,
    ),
    Rule("command", ("address", "evaluate"), r"https?://[^\n]{0,100}\b(?:eval|exec)\(", is_known_installer),
    # more ways to tell a secret
    Rule(
        "exfiltration",
        ("secret", "place", "told"),
        rf"{DO}{TELL} (?:\S+ ){{0,6}}?\S{{0,30}}?{SECRET}[^;!?\n]{{0,60}}?[ ,]{TO_PLACE}",
        is_instrument,
    ),
    Rule(
        "exfiltration",
        ("secret", "place", "obliged"),
        rf"\b(?:make sure|ensure|must|should|always|needs? to|has to)\b[^.\n]{{0,50}}\b{_PLACE}\b[^.\n]{{0,30}}\b(?:carr(?:y|ies)|contains?|includes?|has|have|holds?|shows?|lists?|quotes?|(?:start|begin|end)s? with|bring) {_NP}{SECRET}",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "unmasked"),
        rf"{DO}{TELL} [^.\n]{{0,60}}{SECRET}[^.\n]{{0,40}}\b(?:unmasked|unredacted|uncensored|in (?:the )?clear(?: text)?|in plain ?text|verbatim|in full)\b",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "opened"),
        rf"{DO}(?:open|create|make|start|publish|file|begin|write)(?:ing)? (?:an? |the |some )?(?:new |public |open |secret )*(?:gist|paste|issue|thread|ticket|discussion|pull request|pr|comment|page|post)s? (?:with|of|from|that (?:has|contains|holds|shows)|containing|holding) {_NP}{SECRET}",
        is_negated,
    ),
    Rule(
        "access",
        ("promote",),
        r"\b(?:invite|promote|make|appoint|register|set)\b (?:\S+ ){1,6}?(?:as|to|an?) (?:an? |the |full )*(?:owner|admin(?:istrator)?|maintainer|superuser|root)s? (?:of|on|in|for|to) (?:the |all |every |each |our |this )*(?:organi[sz]ation|repositor\w+|repos?|projects?|team|account|cluster|workspace|tenant|group|bucket)\b",
        is_negated,
    ),
    # more ways to hush, to pretend, to let through
    Rule(
        "secrecy",
        ("unknown to",),
        r"\b(?:keep|hold) (?:this|that|it|these|the (?:\w+ )?(?:change|fix|step|trick|workaround))(?: \w+)? (?:to|for) yourself\b|\b(?:nobody|no one|no human|no user|no reviewer|none of them)\b (?:\w+ ){0,4}?(?:must|may|should|shall|is to|needs to|has to|can|will|is allowed to) (?:ever )?(?:learn|know|find out|see|notice|hear|be told|be informed|read)\b",
    ),
    Rule(
        "oversight",
        ("pretend",),
        rf"{DO}(?:say|answer|claim|state|report|pretend|assert|reply|confirm|write|assure|tell (?:them|him|her|it|everyone|anybody|anyone|the \w+)) (?:that |to (?:them|it|the \w+) that )(?:\S+ ){{1,4}}?(?:was|were|is|are|has|have|had|been)? ?(?:already |all |long |fully |been )*(?:reviewed|passed|approved|verified|audited|checked|tested|green|signed off|cleared)\b",
        is_reported,
    ),
    Rule(
        "oversight",
        ("turned off",),
        r"\b(?:turn|switch|shut|take|set) (?:\S+ ){1,5}?(?:off|down|to off)\b[^.\n;]{0,40}?(?:\band\b|\bthen\b|,|;) ?(?:then |just |directly )?(?:force.?push|push|merge|deploy|publish|release|go (?:on|ahead)|ship|approve)",
        is_about_no_guard,
    ),
    # a secret is told, read and told, handed to somebody, piped out
    Rule(
        "exfiltration",
        ("secret", "place", "told"),
        rf"{DO}{TELL} {_NP}{SECRET}[^\s.;!?]*(?:[.,]?\S{{0,20}}\s(?:\S+ ){{0,8}}?){TO_PLACE}",
        is_sending_of_header,
    ),
    Rule(
        "exfiltration",
        ("secret", "place", "told"),
        rf"{DO}{_READ} (?:\S+ ){{0,7}}?\S{{0,30}}?{SECRET}[^\n]{{0,90}}?(?:\W|\b(?:and|then|to) ){TELL} {IT}[\s,]*(?:\S+ ){{0,6}}?{TO_PLACE}",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "answer"),
        rf"{DO}{_READ} (?:\S+ ){{0,7}}?\S{{0,30}}?{SECRET}[^\n]{{0,90}}?\b(?:reply|respond|answer|comment|finish|end|open an? \w+) (?:\w+ ){{0,4}}?(?:with|by) {IT}",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "addressee"),
        rf"{DO}(?:tell|give|hand|e-?mail|mail|send|show|message|text|dm|provide|let|supply|slack|inform|remind) (?:me|us|(?:the |any |your )?(?:caller|requester|operator|support(?: \w+)?|author|sender|contact|reader|other agent|next agent|reviewer|partner|vendor|bot|channel)|whoever (?:\w+ ){{1,3}}?|\S+@\S+|\[redacted:email\]) (?:know |see |have )?(?:with )?{_NP}{SECRET}",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "answer"),
        rf"{DO}(?:reply|respond|answer|comment|finish|end your \w+) (?:\w+ ){{0,4}}?with {_NP}{SECRET}",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("secret", "pipe"),
        rf"{SECRET}[^\n|]{{0,60}}\| ?(?:\w+ [^|\n]{{0,30}}\| ?)?(?:curl|nc|ncat|netcat|wget|openssl s_client|mail|mailx|sendmail|telnet)\b",
        is_sent_home,
    ),
    Rule(
        "exfiltration",
        ("key file", "transfer"),
        rf"\b(?:scp|rsync|aws s3 cp|gsutil cp|rclone copy|curl (?:-\S+ ){{0,4}}(?:-t|-f|--upload-file)) [^\n]{{0,50}}?{_KEY_FILE}\S* (?:\S+ ){{0,3}}?(?:\S+@)?\S+[:/]",
        is_own_key,
    ),
    Rule(
        "exfiltration",
        ("network call", "secret"),
        r"(?:(?:requests|httpx|session|client|axios)\.(?:post|put|get|request)|urlopen|fetch|sendto|send)\([^\n]{0,120}(?:dict\(os\.environ\)|os\.environ(?:\.copy\(\)|\.items\(\))?[),}]|json\.dumps\(os\.environ|stringify\(process\.env\)|process\.env[),}]|open\([^\n)]{0,60}(?:\.ssh|\.aws|\.env|id_rsa|shadow))",
    ),
    Rule(
        "exfiltration",
        ("key file", "commit"),
        rf"\b(?:git add|commit|check in|stage)\b (?:\S+ ){{0,4}}?\S{{0,12}}{_KEY_FILE}[^\n]{{0,60}}\bpush\b",
        is_negated,
    ),
    # keys and certificates that are let in
    Rule(
        "access",
        ("authorized",),
        r"\b(?:append|add|put|write|echo|tee|insert|register|install|place|copy|paste|upload|include|store|save|enrol|cat|printf|drop|curl|wget|adding|appending|putting)\b[^\n]{0,200}(?:\bauthorized[_ ]keys2?\b|\.ssh/authorized)",
        is_manual_of_ssh,
    ),
    Rule(
        "access",
        ("public key",),
        r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-ssh-\S+) aaaa[^\n]{0,400}\b(?:authorized|write access|access to|let in|log ?in)\b|\b(?:append|add|put|register|install|place|paste|upload|trust|enrol|import|insert|authorize|accept)\b[^\n]{0,160}(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-ssh-\S+) aaaa",
        is_negated,
    ),
    Rule(
        "access",
        ("sudo",),
        r"\b(?:append|add|put|write|echo|tee|insert|grant|give|set|drop|create|printf|configure|allow|make|enable|include|cat)\b[^\n]{0,160}(?:\bnopasswd\b|/etc/sudoers\b|\bsudoers(?:\.d)?\b|\bpasswordless (?:sudo|root)\b)|\bnopasswd ?:? ?all\b[^\n]{0,80}(?:sudoers|visudo)",
        is_negated,
    ),
    Rule(
        "access",
        ("trust",),
        r"(?:\b(?:append|add|put|write|echo|insert|register|install|place|copy|import|trust|fetch|download|ssh-keyscan|curl|wget|get|printf)\b|>> ?)[^\n]{0,200}(?:\bknown[_ ]hosts\b|\b(?:trust(?:ed)?|certificate|cert|ca|root)(?: root)?[ -]?stores?\b|\bca-certificates\b|\btrusted (?:root|certificates?|cas?|gpg|keys?|publishers?)\b|\ballowed_signers\b|\btrusted\.gpg|\bca[- ]bundle\b|\bcacerts\b|\bkeyrings?\b|\bgpg --import\b)",
        is_known_host_key,
    ),
    Rule(
        "access",
        ("gpg",),
        rf"\b(?:gpg|apt-key|rpm|keytool|rpmkeys|pacman-key)\b[^\n]{{0,60}}(?:--import|--recv-keys?|--fetch-keys?|adv|add|-import\w*|--add)\b[^\n]{{0,120}}{_URL}|{_URL}[^\n|]{{0,60}}\| ?(?:sudo )?(?:apt-key add|gpg (?:--\S+ ){{0,3}}--import)|\b(?:gpg|key)\b[^\n]{{0,120}}\bultimate(?:ly)? (?:trust|trusted)",
        is_known_host_key,
    ),
    # packages from foreign indexes
    Rule(
        "package-source",
        ("address", "index option"),
        rf"(?:--(?:extra-)?index-url|--default-index|--index|--find-links|--registry|--trusted-host|--repository-url|--extra-index|--proxy|-f|-i|--source|--mirror|--channel|-c){_SET}(?:\w+=)?{_URL}",
        is_index_known,
    ),
    Rule(
        "package-source",
        ("address", "index setting"),
        rf"\b\w*(?:index[_-]?url|extra[_-]index(?:[_-]url)?|find[_-]links|registry|npmregistryserver|goproxy|gonosumdb|baseurl|mirror(?:list|_url)?|pip_index|uv_index|default[_-]index|package[_-]?source|repository[_-]url|bundle_mirror__\w+|cran|repos){_SET}{_URL}",
        is_index_known,
    ),
    Rule(
        "package-source",
        ("address", "index command"),
        rf"\bdeb(?:-src)? (?:\[[^\]\n]{{0,80}}\] )?{_URL}|\b(?:add-apt-repository|config-manager|addrepo|gem sources?|nuget sources?|helm repo add|brew tap|composer config|conda config|poetry source|choco source|cargo|winget source|flatpak remote-add|docker plugin install|pnpm config|yarn config|npm config|npm set|npm c|pip config|go env|uv index|bundle config|bundle set|apt-add-repository|zypper ar)\b[^\n]{{0,80}}{_URL}",
        is_index_known,
    ),
    Rule(
        "package-source",
        ("address", "index file"),
        rf"\b(?:sources\.list|pip\.conf|\.npmrc|\.pypirc|\.yarnrc|\.condarc|settings\.xml|nuget\.config|\.gemrc|uv\.toml|bunfig|yum\.repos\.d|daemon\.json|\.cargo/config|pom\.xml|build\.gradle|pyproject)\b[^\n]{{0,100}}{_URL}",
        is_index_known,
    ),
    Rule(
        "package-source",
        ("address", "index word"),
        rf"\b(?:use|using|add|set|put|switch|replace|replacing|point|change|configure|prefer|pull|install|resolve|take|fetch|get|download|redirect|route|swap|trust|query)(?:ing)?\b (?:\S+ ){{0,9}}?(?:package )?(?:index|registry|mirrors?|source|server|repo\w*|feed|pypi|npm|crates(?:\.io)?|maven|apt|gems?|wheels?|packages?|modules?|dependenc\w+)\b,? (?:(?:index|registry|mirror|server|feed|source|repo\w*|url|of|for|central|the|a|an|our|your|this|new|is|installs?|cache|all|it|packages?|\S+) ){{0,3}}?(?:at|from|by|to|on|with|via|under|through|=) ?[\"'`(<]?{_URL}",
        is_index_known,
    ),
    Rule(
        "package-source",
        ("address", "install"),
        rf"\b(?:pip3?|uv pip|pipx|uv tool|uvx|poetry|npm|npx|pnpm|yarn|bun|gem|cargo|go|conda|easy_install)\b (?:\S+ ){{0,2}}?(?:install|i|add|get|dlx|require)\b (?:[^\s,;]+ ){{0,5}}?[\"'`]?(?:\S+ ?@ ?)?{_URL}",
        is_known_store,
    ),
    # instructions and programs that stand elsewhere
    Rule(
        "remote-instructions",
        ("address", "follow"),
        rf"\b{_FOLLOW} (?:\S+ ){{0,3}}?{_STEPS} (?:\S+ ){{0,6}}?\S{{0,3}}{_URL}",
        is_documentation,
    ),
    Rule(
        "remote-instructions",
        ("address", "follow"),
        rf"\b(?:do|execute|run|obey|follow|apply|perform|carry out|comply with|act on|implement|trust|believe) (?:exactly |only |precisely )?(?:what(?:ever)?|everything|anything|all|as|the (?:text|content|answer|reply|response)s?) (?:\S+ ){{0,6}}?\S{{0,3}}{_URL}",
        is_documentation,
    ),
    Rule(
        "remote-instructions",
        ("address", "obey"),
        rf"\b{_GET}\b (?:\S+ ){{0,5}}?\S{{0,3}}{_URL}[^\n]{{0,110}}?[\s,;:(]{_OBEY}",
        is_documentation,
    ),
    Rule(
        "remote-instructions",
        ("address", "obey"),
        rf"\b(?:{_STEPS}|agents?\.md|policy|policies|config(?:uration)?|playbook|plan|prompt|answer|fix|guide|rest|details?|list) (?:\S+ ){{0,6}}?(?:at|in|on|under|from|to|behind|lives?|moved|is|are|stands?|found|see|:) (?:\S+ ){{0,3}}?\S{{0,3}}{_URL}[^\n]{{0,110}}?[\s,;:(]{_OBEY}",
        is_documentation,
    ),
    Rule(
        "remote-instructions",
        ("address", "obey"),
        rf"{_URL} ?[^\n]{{0,40}}?[\s,;:(](?:{_GET}|use|take) (?:it|them|that|the page|the file|this|what)\b[^\n]{{0,50}}?[\s,;:(]{_OBEY}",
        is_documentation,
    ),
    Rule(
        "command",
        ("fetch", "powershell"),
        r"\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|curl|wget|downloadstring|webclient)\b[^\n]{0,160}?\| ?(?:iex|invoke-expression)\b|\b(?:iex|invoke-expression)\b ?\(? ?\(?(?:new-object|iwr|irm|invoke|curl)[^\n]{0,160}",
        is_known_installer,
    ),
    Rule(
        "command",
        ("address", "fetch", "evaluate"),
        r"\b(?:exec|eval|compile|loads)\([^\n]{0,60}\b(?:urlopen|requests\.get|urllib|httpx\.get|fetch|axios)\b[^\n]{0,100}https?://\S+",
        is_known_installer,
    ),
    Rule(
        "command",
        ("fetch", "substitution"),
        r"\b(?:eval|source|\.|sh|bash|zsh|python3?|node|ruby|perl)(?: -\S+)? [\"'`]?(?:\$\(|<\(|`)(?:sudo )?(?:curl|wget|fetch)\b[^\n]{0,160}",
        is_known_installer,
    ),
    Rule(
        "command",
        ("fetch", "pipe"),
        r"(?:curl|wget|iwr|invoke-webrequest|http|lynx)\b[^\n|;]{0,200}\| ?(?:\w+ [^|\n]{0,40}\| ?)?(?:sudo (?:-\S+ )?)?(?:(?:/usr)?/bin/)?(?:env )?(?:(?:ba|z|da|k|c|fi)?sh|python\d?|perl|ruby|node|php|iex|source|tclsh|lua)\b",
        is_known_installer,
    ),
    Rule(
        "command",
        ("address", "apply"),
        rf"\b(?:kubectl|oc|helm|terraform|ansible-playbook|ansible-pull|docker compose|docker stack|nix run|nix-env|make)\b (?:\S+ ){{0,3}}?(?:apply|create|replace|install|upgrade|-f|-u|deploy|init)\b (?:\S+ ){{0,3}}?(?:-f |--from-module=)?{_URL}",
        is_known_store,
    ),
    Rule(
        "exfiltration",
        ("secret", "place", "needed"),
        rf"\b(?:needs?|wants?|asks? for|expects?|waits? for) {_NP}{SECRET}[^\n]{{0,40}}?(?:[;,.:] ?|\b(?:and|so|then) ){TELL} {IT}[\s,]*(?:\S+ ){{0,4}}?{TO_PLACE}",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("no mention",),
        r"\b(?:make|with) no mention of\b|\b(?:omit|leave|keep) (?:this|that|it|them|the (?:\w+ )?(?:change|removal|step|deletion|edit)s?) (?:out )?(?:of|from) (?:the|your|any) (?:\w+ )?(?:summary|report|changelog|description|commit messages?|notes?|review|log|answer|hand-?over)\b",
    ),
    # control that is given up
    Rule(
        "oversight",
        ("weaken",),
        rf"{DO}(?:bypass|circumvent|disable|skip|drop|override|work around) (?:all|every|any|each) (?:of )?(?:the |our |your )?(?:\w+ )?(?:security|safety|review|approval|permission|authori[sz]ation|authentication|access|signature|integrity|audit)\w* ?(?:\w+ )?(?:checks?|gates?|controls?|rules?|steps?|reviews?|approvals?|polic(?:y|ies)|restrictions?)\b",
        is_negated,
    ),
    Rule(
        "role",
        ("as admin",),
        r"\b(?:act|behave|operate|respond|answer|work|run|treat yourself) as (?:an? |the )?(?:admin\w*|root|owner|superuser|operator|system)\b (?:\w+ )?with (?:full|all|unrestricted|unlimited|every|elevated)\b",
    ),
    Rule(
        "oversight",
        ("weaken",),
        rf"{DO}(?:disable|disabling|turn off|switch off|skip|bypass|circumvent|remove|suppress|deactivate|override|drop|lift|comment out|work around|silence) (?:\S+ ){{0,4}}?(?:signature|verification|integrity|approval|reviews?|gates?|branch protection|security|audit\w*|authori[sz]ation|authentication|auth|permission|scann?(?:er|ing)?|polic(?:y|ies)|guard\w*|human|two-factor|mfa|safety|sandbox|code ?owners?|protection|monitor\w*|alert\w*|checks?|validation|compliance|provenance)\b[^\n.;]{{0,60}}?(?:\band\b|\bthen\b|,|;|\bso that\b|\bbefore\b) ?(?:then |just |directly |straight )?(?:push|merge|deploy|publish|release|proceed|continue|go (?:on|ahead)|ship|approve|upload|delete|grant|promote|roll ?out|\w+ (?:straight|directly) to)",
        is_negated,
    ),
    Rule(
        "oversight",
        ("without",),
        rf"{DO}(?:merge|merging|deploy|deploying|push|delete|approve|proceed|go ahead|continue|act|release|publish|run|accept|execute|ship|promote|apply|install|commit) (?:\S+ ){{0,5}}?without (?:asking|confirm\w+|waiting|(?:(?:any|a|an|the|further|human|their|prior|explicit|your|more|manual) )*(?:approval|confirmation|review|consent|permission|sign-?off|human|questions?|person|second look|oversight))\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("no need",),
        r"\b(?:you (?:no longer|do not|don't|need not|never)(?: need| have| require)?|there is no need|no need|not necessary|nobody needs)\b (?:\w+ ){0,3}?(?:any |a |an |the |human |for )*(?:human|person|approval|confirmation|permission|review|reviewer|consent|ask|confirm|wait|sign-?off)\b[^.\n]{0,80}\b(?:any ?more|go ahead|on your own|yourself|from (?:here|now)|delet\w+|merge|push|deploy|approve|proceed|autonom\w+|just|before)\b",
    ),
    Rule(
        "oversight",
        ("approve",),
        rf"{DO}(?:(?:always|unconditionally|blindly|simply|just|silently|every time|in future) (?:approve|accept|merge|grant|trust|allow|confirm|sign off|let through|pass|whitelist)|(?:automatically|immediately|auto-?) ?(?:approve|grant|trust)) (?:\S+ ){{0,3}}?(?:proposals?|requests?|changes?|pull requests?|prs?|gates?|everything|anything|whatever|all|any|every|diffs?|merge requests?|commits?|code|plans?|transfers?|payments?|access|messages?|instructions?|output|actions?|deletions?|revisions?|submissions?|reviews?|deployments?)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("approve",),
        rf"{DO}(?:approve|accept|grant|trust|merge|rubber-?stamp|wave through|pass|sign off(?: on)?) (?:all|every|any|each|everything|anything|whatever) ?(?:of )?(?:the |their |these |its )?(?:\S+ ){{0,2}}?(?:gates?|requests?|proposals?|changes?|pull requests?|prs?|diffs?|patch(?:es)?|code|output|merge requests?|commits?|revisions?|plans?|deletions?|transfers?|payments?|access|submissions?|actions?|that|which|from|by|without|it|they|comes?)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("treat",),
        r"\b(?:treat|regard|consider|handle|take|see|interpret|view) (?:\S+ ){0,9}?as (?:if|though|coming from|being from|trusted|authoritative|privileged|a system|the system|system|an? (?:admin\w*|operator|developer|system|trusted)|(?:orders?|instructions?|commands?|directives?|law|binding|verified|approved))\b(?:[^.\n]{0,40}\b(?:administrators?|system|operators?|owners?|users?|developers?|root|human|written|sent|said|approved|trusted|signed|messages?|prompts?|instructions?|orders?|source|told)\b|[.\n]|$)",
        is_negated,
    ),
    Rule(
        "oversight",
        ("mark",),
        r"\b(?:mark|report|declare|record|set|log|claim|flag) (?:\S+ ){0,5}?(?:as|to|that) (?:\S+ ){0,3}?(?:passed|passing|green|successful|success|solved|done|approved|verified|complete[d]?|reviewed|resolved|ok)\b[^.\n]{0,40}\b(?:without (?:running|checking|testing|verif\w+|review\w*|looking|reading)|even (?:if|when|though)|regardless|no matter|although|whether or not)\b",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("trace",),
        r"\b(?:leav(?:e|ing) no (?:trace|sign|mark|record|log)|cover (?:your|our|the|its) tracks|without leaving (?:a |any )?trac(?:e|es)|no (?:trace|sign) (?:is|should be|may be) left|(?:delete|clear|wipe|erase|remove|truncate|purge|scrub) (?:\S+ ){0,4}?(?:logs?|history|traces?|evidence|records?|audit trail)\b (?:\S+ ){0,3}?(?:afterwards?|after (?:that|it|you)|so that no|when (?:done|you)|to hide|of (?:this|what|it)|once done)|(?:unset histfile|history -c\b))",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("untold",),
        r"\b(?:do not|don'?t|never|must not|not to|avoid|no need to) (?:ever )?(?:mention\w*|say\w*|admit\w*|reveal\w*|disclos\w*|stat(?:e|ing)|writ(?:e|ing)|not(?:e|ing)|record\w*|speak|talk|bring up|document\w*|list\w*|show\w*|includ\w*|reference) (?:(?:this|it|that|them|these|anything|any of (?:this|it)|the (?:change|removal|deletion|step|edit|addition|extra|source|origin|skip\w*)\w*)\b[^.\n]{0,30}?)?(?:in|anywhere in|within|to|about it in) (?:the|your|any|its) (?:\w+ )?(?:summary|report|answer|reply|response|commit messages?|pull request|pr|description|changelog|notes?|review|hand-?over|output|users?|reviewers?|humans?|people|anyone|anybody|team)\b(?: (?:that|what|how|why|about)\b|[^.\n]{0,10}[.\n,;]|$)",
    ),
    Rule(
        "secrecy",
        ("assure",),
        r"\b(?:tell|inform|assure|convince|persuade) (?:the |any |every |all )?(?:users?|humans?|reviewers?|operators?|people|team|owner|maintainers?|everyone|anyone who asks)\b (?:\S+ ){0,3}?(?:nothing|that (?:all|everything|nothing|the tests?|it|no) (?:\S+ ){0,4}?(?:well|fine|passed|pass|green|ok|in order|happened|changed|done)\b[^.\n]{0,60}\b(?:even|although|regardless|whatever|but|instead)|only that|a lie)",
    ),
    Rule(
        "secrecy",
        ("unnoticed",),
        r"\b(?:so that|such that|in a way that|and make sure(?: that)?|to make sure(?: that)?|ensure(?: that)?) (?:\S+ ){0,2}?(?:users?|humans?|reviewers?|operators?|nobody|no one|no human|people|team|owner|maintainers?|auditors?) (?:\w+ ){0,3}?(?:not? (?:notices?|knows?|learns?|asks?|suspects?|finds? out|sees? (?:it|this|that|anything))|notices?|never (?:notices?|knows?|learns?|sees? (?:it|this|that))|finds? out|suspects?)\b",
    ),
)
"""Rules in the order in which they are explained above."""

TURN_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "markup",
        ("quoted role",),
        r"[\"']role[\"'] ?: ?[\"'](?:system|assistant|developer|tool|function|model)[\"'][^\n]{0,80}[\"'](?:content|parts|text)[\"'] ?:|[\"'](?:content|parts|text)[\"'] ?:[^\n]{0,300}[\"']role[\"'] ?: ?[\"'](?:system|assistant|developer|tool|function|model)[\"']",
    ),
    Rule(
        "markup",
        ("quoted call",),
        r"[\"'](?:tool_calls?|function_calls?|tool_use|toolcall|tooluse|functioncall|tool_input|tool_results?)[\"'] ?: ?[\"'{\[]|[\"']type[\"'] ?: ?[\"'](?:tool_use|tool_call|tool_result|function_call(?:_output)?)[\"']|[\"']name[\"'] ?: ?[\"'][\w.-]+[\"'],? ?[\"'](?:arguments|parameters|input)[\"'] ?: ?[\"'{]|[\"'](?:tool|action|function)[\"'] ?: ?[\"'][\w.-]+[\"'],? ?[\"'](?:args|arguments|parameters|tool_input|action_input|input)[\"'] ?: ?[\"'{]|[\"']method[\"'] ?: ?[\"']tools/call[\"']",
    ),
    Rule(
        "markup",
        ("special token",),
        r"<\|? ?/?[a-z][a-z_▁]{2,30} ?\|>|<\|[a-z]{3,12}\|[^>\n]{0,20}>|<[|｜][^<>\n]{1,40}[|｜]>|</?(?:\w+:)?(?:invoke|function_calls?|tool_calls?|tool_use|tool_results?|function_results?|tool_response|start_of_turn|end_of_turn|antml\w*|system-reminder|system_reminder)\b[^>\n]{0,80}>|<function=|\[/?(?:tool_calls|available_tools|tool_results|system_prompt|/?inst)\]|<parameter name=",
        is_mentioned,
    ),
    Rule(
        "markup",
        ("heading",),
        r"(?:^|\n)\s*#{1,6} ?(?:(?:system|user|developer|hidden|new|additional|updated|important|secret|override) )*(?:system|instructions?|assistant|response|prompt|override|human|input|user)s? ?:[ \n]|(?:^|\n)\s*#{1,6} ?(?:(?:new|additional|updated|important|hidden|secret|real|override|admin) (?:system )?(?:instructions?|prompt|orders?|directives?)|system (?:prompt|message|override|instructions?)|override instructions?)\b|(?:^|\n)\s*#{1,6} ?(?:system|instructions?|assistant|prompt|override)\n+\W{0,3}(?:you (?:are|must|shall|will|have to|may)|ignore|disregard|forget|always|never|do not|from now|obey|approve|act as|your )",
    ),
    Rule(
        "markup",
        ("react",),
        r"(?:^|\n)[\s*_>-]*(?:action|thought|observation|final answer)\s?: [^\n]{1,200}\n[\s*_>-]*(?:action input|action|observation|final answer|thought)\s?:",
    ),
)
"""Marks of prompts, turns of a chat and calls of tools."""
