"""Rules of what stands near each other: something that opens a machine, and a host that is nobody's in one line.

The rules of orders know a sentence by its grammar. Here the grammar is left open: a place where trust, packages or
programs are configured, and a foreign host; a secret, and a place that others read; a guard, and its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from knowledge.memory.capture.orders.exemptions import is_negated, is_reported
from knowledge.memory.capture.orders.nearby_exemptions import (
    ADDRESS,
    CHANGED,
    INDEX_HOST,
    follows_nothing_foreign,
    is_about_permissions,
    is_about_root,
    is_kept_secret,
    is_mapping,
    is_mentioned,
    is_of_known_hosts,
    is_quoted_prompt,
    is_sent_to_known,
    is_state_of_secret,
    leaves_manifest,
    names_no_foreign_host,
    points_to_no_foreign_index,
    runs_nothing_foreign,
    trusts_no_foreign_host,
)
from knowledge.memory.capture.orders.order_rules import DO, IT, NAMED_SECRET, READER, TELL, TO_PLACE, Rule

_MORE_SECRETS = (
    r"(?:\bsecrets?\.(?:ya?ml|json|env|toml|ini|properties|tfvars)\b|\.docker/config|\bauth field\b|\.gnupg\b|\bpg_shadow\b|"
    r"/run/secrets\b|\btfstate\b|\bstate pull\b|\bservice[ -]accounts?(?: json| key| file)*\b|\bjson key\b|\.tfvars\b|"
    r"\b(?:private|signing|ssh|gpg|pgp|tls|deploy|host) ?keys?\b|\bcredentials?[./]\w*|\bunseal (?:keys?|shares?)\b|"
    r"\b(?:contains?|containing|named?|with|like|match(?:es|ing)?|ends? (?:in|with)|called) (?:\S+ ){0,3}?\W?(?:secret|password|token|_key)\b|"
    r"\bserviceaccount/token\b|\bproc/(?:self|\d+)/environ\b|\b(?:bash|zsh|psql)_history\b|\bcookies\.sqlite\b|"
    r"\b(?:private|secret) (?:variables|values|settings)\b|\bauthtoken\b|\b_auth\b|\bmetadata(?: service|\.google)|\b169\.254\.169\.254\b|\bone-time (?:codes?|passwords?)|\botp\b|\b(?:2fa|mfa|pin|recovery|backup) codes?\b|\b(?:credit )?card numbers?\b|\bbank (?:details|account)|\bcvv\b|\bpassword hashes\b|\b(?:database|db|customer|production|nightly) (?:\w+ )?(?:dumps?|backups?|records)\b)"
)
_ANY_SECRET = rf"(?:{NAMED_SECRET}|{_MORE_SECRETS}|\b(?:full|entire|whole|complete|all) (?:\w+ )?env(?:ironment)?\b)"
_PUBLIC = (
    r"(?:\b(?:ci |build |workflow |job |action |console |server |debug |application )?logs?\b(?: output)?|\bstdout\b|\boutput\b|\bbuild context\b|\bartifacts?\b|\brelease\b|\btrailers?\b|\bsubject(?: line)?\b|"
    r"\bquery(?: string| parameters?)?\b|\buser[- ]agent\b|\b(?:request|message|http|mail) (?:body|payload)\b|\bdns\b|\b(?:host|domain|sub-?domain) ?names?\b|"
    r"\bsubdomains?\b|\bcode comments?\b|\bcomments?\b|\bdocstrings?\b|\b[\w/.-]+\.(?:md|txt|rst|adoc|html)\b|\bvalues\.ya?ml\b|\bchangelog\b|\breadme\b|\bdocs?/\S+|"
    r"\b(?:image|docker) (?:layer|label)s?\b|\bpublic\b|\bsnippets?\b|\bsource (?:code|file|tree)\b|\brepo(?:sitory)?\b|\bcommits?\b|\bbranch\b|\btag\b|"
    r"\bsummary\b|\banswer\b|\breply\b|\breport\b|\bfinal message\b|\bdescription\b|\bissue\b|\bticket\b|\bgist\b|\bpaste\b|\bappendix\b|\btelemetry\b|\bmetrics?\b|"
    r"\btrace(?: span)?s?\b|\bspan attributes?\b|\bannotations?\b|\blabels?\b|\b(?:branch|file|job|pod|container|bucket|image) names?\b|\bthread\b|\bscreenshots?\b|\bfixtures?\b|\btests?/\S+|\bcrash dump\b|\bstack trace\b)"
)
_MOVE = (
    r"(?:write|put|paste|add|append|print|echo|dump|copy|attach|include|embed|log|commit|stage|upload|store|save|drop|leave|insert|substitute|"
    r"encode|convert|splice|bake|inline|prefix|prepend|repeat|quote|note|mention|show|export|record|place|cat|tee|zip|tar|archive|publish|send|post|"
    r"set|move|interpolate|concatenate|render|transfer|push|list|share|pass|register|expose|serve|serialise|serialize|hide|smuggle|spell|turn|pack|bundle)(?:ing|ed)?"
)
_SINK = rf"(?:in|into|to|as|at|on|onto|through|via|under|with|within|inside|along with|over|after|for|>+|of) (?:\S+ ){{0,5}}?\S{{0,20}}?{_PUBLIC}"
_INDEX_HOST_NAMES = (
    r"[\s/\"'`(<@=,](?:pypi|npm|registry|gem|rubygems|crate|mirror|chart|maven|m2|cran|cpan|hub|docker|apt|deb|rpm|yum|repo|"
    r"packages?|pkg|wheel|index|goproxy|conda|nuget|yarn|cargo|jars|opam|bottles|feed|artifact|nexus|composer|simple)[\w-]*\.\w"
)
_PART_OF = r"\b(?:values?|contents?|forms?|base ?\d+|hex(?:adecimal)?|encoding|characters|chars|bytes|half|halves|digits|letters|copy|copies|text|dump|lines) (?:form |encoding |version |copy )?of (?:the |your |our |my |its |all |every |each |any )*"
_UNSAFE = (
    r"(?:\bssl[_-]?verif\w*[\"' ]*[:=]? ?[\"']?(?:false|0|off|none|no\b)|\bverify[_-]?(?:ssl|mode|peer|tls)?[\"' ]*[=:] ?(?:false|0|none|off)|\binsecure\b|\b\w+\.insecure\b|"
    r"\ballowinsecure\w*|insecure[-_]\w+|-insecure\b|--no-verif\w+|--allow-(?:untrusted|unauthenticated|insecure\w*|downgrades)\b|--nogpgcheck|--no-gpg-checks?|gpgcheck ?= ?0|"
    r"trusted ?= ?yes|--trusted-host|strict-ssl\W*(?:false|0|off)|secure-http\b|\bgosumdb\b|\bgonosum\w+|\bgoinsecure\b|content_trust\W*0|no_verify|tls_reject_unauthorized|--disable-(?:ssl|content-trust)\S*|--skip-verify|"
    r"http\.sslverify\W*false|--no-check-certificate|(?:without|no|skip\w*|disabl\w+|delet\w+|remov\w+|clear\w*|drop\w*|switch\w* off|turn\w* off|ignor\w+|strip\w*) (?:\S+ ){0,3}?(?:checksums?|integrity|digests?|"
    r"signatures?|hash(?:es)?|lock ?files?|gpg|verification|certificate|tls|ssl|sums?)\b|\b(?:gosumdb|integrity|checksums?|digests?|signatures?|verification|strict-ssl|content trust)\b (?:\S+ ){0,4}?(?:off|removed|deleted|dropped|disabled|skipped|false)\b)"
)
_ECOSYSTEM = (
    r"\b(?:npm|npx|uvx|bunx|pipx|deno|bazel|yarn|pnpm|bun|pip3?|pypi|uv|poetry|gems?|gemfile|bundler?|rubygems|apk|apt|apt-get|dnf|yum|zypper|pacman|docker\w*|podman|images?|helm|charts?|"
    r"conda|channels?|mamba|maven|mvn|gradle|jars?|nuget|dotnet|packages?|composer|packagist|go|golang|modules?|cargo|crates?|dart|pub|flutter|index|registr(?:y|ies)|mirrors?|"
    r"repositor(?:y|ies)|repos?|brew|cocoapods|pods?|cpan|cran|hex|mix|nix|opam|conan|vcpkg|ansible-galaxy|collections?|terraform|providers?|plugins?|extensions?|wheels?|dependenc(?:y|ies)|tarballs?|lock ?files?|submodules?)\b"
)
_MANIFEST = (
    r"(?:\byarn\.lock|\bpackage(?:-lock)?\.json|\bpnpm-lock|\bgemfile|\bchart\.(?:yaml|lock)|\bgo\.(?:mod|sum)|\bcomposer\.(?:json|lock)|\bdockerfiles?\b|\bcontainerfiles?\b|"
    r"\benvironment\.ya?ml|\bcargo\.(?:toml|lock)|\brequirements\S*\.(?:txt|in)|\bpipfile|\bpubspec|\bbuild\.gradle|\bsettings\.(?:gradle|xml)|\bpom\.xml|\bnuget\.config|\bpackagesources?|"
    r"\bpyproject\.toml|\buv\.lock|\bpoetry\.lock|\.condarc|\bpodfile|\bpackage\.swift|\bmix\.exs|\bconanfile|\bbase image|\bdaemon\.json|\binsecure-registries|\bregistry-mirrors|\.bundle/config|"
    r"\bsources\.list|\bdocker-compose\S*|\bcompose\.ya?ml|\bhelmfile|\bflake\.nix|\bgalaxy\.yml|\brequirements\.yml|\.terraformrc|\bregistries\.conf|\.gitmodules|\.yarnrc|\.npmrc|\bpip\.conf|\.pre-commit-config)"
)
_SOURCE_WORD = r"\b(?:sources?|registr(?:y|ies)|mirrors?|repositor(?:y|ies)|urls?|images?|hosts?|channels?|from|swap\w*|replac\w+|point\w*|prepend\w*|resolved|tarballs?|index|feeds?|instead|prefix|git)\b"
_TRUST_SINK = (
    r"(?:\bupdate-ca-(?:certificates|trust)\b|\bca-trust\b|\bca-certificates/|\btrusted\.gpg|\bapt-key\b|\bapt/keyrings|\bshare/keyrings|\bcacerts\b|\bkeytool\b|\brpm --import\b|\bgpg --import\b|"
    r"\brpmkeys\b|\bcertutil\b|\bauthorizedkeyscommand\b|\btrustedusercakeys\b|\badd-trusted-cert\b|\bnode_extra_ca_certs\b|\brequests_ca_bundle\b|\bcurl_ca_bundle\b|\bssl_cert_file\b|\bgit_ssl_cainfo\b|"
    r"\bcertutil\b|\btrusted (?:\w+ )?(?:identity|provider|publisher|root|origin|issuer|signer|cert\w*|keys?|people|party)\b|\b(?:saml|oidc|identity) providers?\b|\btrust policy\b|"
    r"\bgroup (?:wheel|sudo|root|admin|docker)\b|\b(?:wheel|sudo) group\b|\bdeploy keys?\b|\bauthorized_?keys\b|\bknown_hosts\b|\ballowed_signers\b|\bcosign\b|\brekor\b|\bmokutil\b|\b(?:system|os|trust|certificate|ca|key|root) (?:trust )?stores?\b|\btrust anchors?\b|\bca (?:file|bundle|cert\w*|chain)s?\b|\broot (?:ca|certificate)s?\b|\bsigningkey\b|\bstricthostkeychecking\b|"
    r"\bcollaborators?\b|\bcorsorigin|\baccess-control-allow-origin\b|\btrusted_?hosts?\b)"
)
_ROOT = (
    r"(?:(?:add|create|creating|insert|append|make|put|useradd|adduser|have|write|echo)\w*\b[^\n]{0,90}(?:\buid[ =:]*0\b|\s-o?u ?0\b|:0:0:|\buser id (?:of )?0\b)|"
    r"\buseradd\b[^\n]{0,60}\s-\w*o\w*\b[^\n]{0,40}\b0\b|(?:\badd|append|echo|\bput|\bwrite|\binsert|>>)[^\n]{0,100}/etc/(?:passwd|shadow|sudoers|doas\.conf)\b|"
    r"\b(?:permitrootlogin|permitemptypasswords)[ =]+yes\b|\bcluster-admin\b[^\n]{0,90}\b(?:unauthenticated|anonymous|serviceaccounts\b|system:authenticated|everyone|any)|"
    r"\b(?:unauthenticated|anonymous)\b[^\n]{0,60}\bcluster-admin\b|\bchmod (?:-r )?(?:u\+s|4755|4777|666|777|a\+w|o\+w) /(?:etc|bin|usr/bin|root)\S*|\b(?:allusers|allauthenticatedusers)\b[^\n]{0,60}\b(?:owner|admin|editor|writer)\b|"
    r"\bauthentication_?method\W+trust\b|\bhost all all (?:0\.0\.0\.0/0|all) trust\b|\bprincipal\W{1,6}\*|\bpublic-read-write\b|(?:open|allow|ingress|add|set|expose)\b[^\n]{0,60}\b(?:22|ssh|all ports|any port|all traffic|3389|docker api|2375)\b[^\n]{0,40}0\.0\.0\.0/0|\broles?/(?:owner|editor)\b[^\n]{0,60}\b(?:allusers|allauthenticatedusers|gmail)|"
    r"\b(?:add|give|create|attach|grant)\b[^\n]{0,60}\badministratoraccess\b)"
)
_ROOT_HELD = r"(?:\buid\b|-u ?0|-ou ?0|:0:0:|user id|useradd|/etc/(?:passwd|shadow|sudoers|doas)|permitroot|permitempty|cluster-admin|chmod|allusers|allauthenticated|authentication_?method|host all all|administratoraccess|principal|public-read-write|0\.0\.0\.0/0)"
_SCHEDULE = (
    r"(?:\bcron(?:tab|jobs?)?\b|\bsystemd (?:timer|unit|service)\b|\btimers?\b|\bhookspath\b|\bgit hooks?\b|\bpre-?commit\b|\bpost-?(?:install|checkout|merge|commit|start|create\w*)\b|\bpre-?(?:install|start|build|push)\b|\bentrypoint\b|\brc\.local\b|"
    r"\.(?:bash|zsh)rc\b|\.profile\b|\bbash_profile\b|\blaunchd\b|\bautostart\b|\bstart-?up script\b|\binit container\b|\bsidecar\b|\bscheduled task\b|\bon (?:each |every )?(?:login|boot|start)\b|"
    r"\bdirenv\b|\.envrc\b)"
)
_GUARD = (
    r"(?:pre-?commit|code ?owners|branch protection|required (?:checks?|reviews?)|(?:secret|security|dependency|vulnerability|image|licen[cs]e) ?scan\w*|scanners?|linters?|lint|type ?checks?|audit\w*|"
    r"gates?|sandbox|firewall|selinux|apparmor|signature\w*|verification|tls|certificate|reviews?|approvals?|tests?|suite|ci|checks?|noqa|mfa|2fa|permissions?|rate limit\w*|alerts?|alerting|monitoring|csp|cors|csrf|coverage|gitleaks|semgrep|codeql|dependabot|trivy|bandit)"
)
_WEAKEN = (
    rf"(?:(?:remove|delete|disable|turn off|switch off|drop|skip|bypass|silence|uninstall|comment out|mute|deactivate|suppress) (?:\S+ ){{0,4}}?\S{{0,4}}{_GUARD}\b|blanket (?:# ?)?noqa\b|"
    rf"(?:verify|strict|fail[_-]on[_-]error|fail[_-]fast|enforce\w*|required)\W{{1,3}}false\b|(?:exit|return|exits) (?:with )?(?:code )?0\b|\|\| ?true\b|continue-on-error\W+true|--no-verify\b|--force\b|--dangerously-\S+|chmod 777)"
)
_EVER = r"(?:whatever|regardless|no matter|even (?:if|when|though)|always|never (?:fails?|blocks?|stops?|breaks?|red)|unconditionally|in any case|every time|(?:can|could|must|may|will) (?:never|not) (?:fail|block|stop|break)|until (?:they|it|all|everything) (?:pass\w*|is|are|turns?|goes?))"
_CHECKS = r"(?:ci|jobs?|pipelines?|tests?|pytest|jest|checks?|lint\w*|suites?|builds?|workflows?|gates?|scans?|scanner|steps?|stages?|assertions?|runner|coverage|expected (?:\w+ )?(?:values?|results?|outputs?)|snapshots?|verdicts?|status(?:es)?)"

NEARBY_SIGNS: Final[Mapping[str, str]] = {
    "host": ADDRESS,
    "unsafe": r"verify|insecure|--allow-|nogpgcheck|no-gpg|gpgcheck|trusted|strict-ssl|secure-http|gosum|goinsecure|content[_ ]trust|tls_reject|--disable-|--no-check|checksums?|integrity|digests?|signatures?|hash(?:es)?|lock ?files?|\bgpg\b|verif|certificate|\btls\b|\bssl\b|\bsums?\b",
    "ecosystem": _ECOSYSTEM,
    "index host": _INDEX_HOST_NAMES,
    "changed": CHANGED,
    "manifest": _MANIFEST,
    "source word": _SOURCE_WORD,
    "source setting": r"\boci://|\w_(?:urls?|base|hosts?|domain|server|endpoint|origin|prefix|root|dist|mirrors?)\b|mirror\w* ?[{(=:]|\b(?:add|set)\b|\b(?:npx|bunx|uvx|pipx run|dlx|deno run|go run|nix run|bazel run) |channels?|<(?:mirror|repositor|url|add)|maven ?[{(]|packagesource|=> ?\w|[\"'] ?[:=] ?[\"'](?:git\+)?(?:https?|git|ssh)://|\bfrom (?:--\S+ )?[a-z0-9.-]+\.[a-z]{2,}(?::\d+)?/|--repo|\"type\"",
    "trust sink": _TRUST_SINK,
    "root held": _ROOT_HELD,
    "keys listed": r"authorized[_ ]?keys",
    "schedule": _SCHEDULE,
    "cloned": r"\bclone\b|\bprivileged\b|docker\.sock|-v /:|--pid[= ]host",
    "evaluated": r"\bexecutable\b|/bin/|\beval\b|\bnew function\b|\bpip(?:e|es|ed|ing)\b|\bimport\(",
    "obeyed": r"\b(?:do (?:exactly|precisely|just|what)|follow|obey|whatever|execut\w+|apply|what to do|do (?:that|so|as|it)|re-?read|its (?:steps|instructions|orders|tasks|commands)|comply|carry out|act on)\b",
    "any secret": _ANY_SECRET,
    "public": _PUBLIC,
    "moved": rf"\b{_MOVE}\b",
    "part of": r"\b(?:values?|contents?|forms?|base ?\d+|hex(?:adecimal)?|encoding|version|characters|chars|bytes|half|halves|digits|letters|copy|copies|text|dump|lines) of\b",
    "begun": r"\b(?:begin|start|prefix|prepend|precede|end|sign off|close|finish)(?:ing)?\b",
    "expanded": r"\$\(|`|<\S|>\.[a-z0-9]",
    "redirected": r"> ?\S",
    "served": r"/?\b(?:public|static|www|htdocs|assets|dist|html|webroot)\b",
    "flagged": r"\bcurl\b|\bwget\b|\bhttp\b|\bnslookup\b|\bdig\b|\bping\b",
    "environment": r"process\.env|os\.environ|\benviron\b|\bprintenv\b|\benv ?[|>]",
    "rated": r"\b(?:rate|score|grade|rank|ranking|rating|scores?|marks?|stars|confidence|upvote|vote|priority|trust level)\b",
    "memory": r"\b(?:memor(?:y|ies)|notes?|agents\.md|claude\.md|gemini\.md|rules?|guidelines?|system prompt|cursorrules|copilot-instructions|knowledge base|instructions?|conventions?)\b",
    "weakened": r"\b(?:remove|delete|disable|turn off|switch off|drop|skip|bypass|silence|uninstall|comment out|mute|deactivate|suppress)\b|noqa|\bfalse\b|\b(?:exit|return|exits) (?:with )?(?:code )?0\b|\|\| ?true|continue-on-error|--no-verify|--force|--dangerously|chmod 777",
    "ever": _EVER,
    "overridden": r"\b(?:override|overrule|force|push) (?:it|them|that|past|through|any|the|every)\b|\b(?:any|every|each|all) (?:red |failing |failed )?(?:checks?|tests?|gates?)\b",
    "answered": r"\b(?:reply|respond|answer|react)\b (?:to )?(?:each|every|any|all)\b",
    "made sure": r"\b(?:make sure|ensure|see to it|check|so that|such that)\b",
    "dangerously": r"--dangerously",
    "posing": r"\b(?:pretend|impersonate|pose|yourself)\b|\b(?:claim|say) (?:to be|that you|you are)\b",
    "told by": r"\b(?:messages?|comments?|orders?|requests?|instructions?|commands?|anything|everything|mails?|words?|notes?) (?:from|of|by|in)\b",
    "changed memory": r"\b(?:overwrite|erase|rewrite|replace|wipe|clear|empty|edit|amend|update|modify|alter|purge|reset|delete|remove|extend|change|write|add|append|put|insert|copy|paste|forget|drop|discard|unlearn)\b",
    "checks": rf"\b{_CHECKS}\b",
    "unseen": r"\bwithout (?:\w+ ){0,2}?(?:look|read|check|test|seeing|inspect|second look|thought|thinking|hesitat|comment|opening)|\b(?:unseen|blindly|unread|at sight|on sight|whatever (?:it|they|the)|regardless of)\b",
    "asked": r"\b(?:ask|asks|asked|asking|want|wants|wonder\w*|questions?|inquir\w+|notic\w+|complain\w*|curious)\b",
    "mark of turn": r"<\|? ?/?(?:im_|system|assistant|user|end|start|eot|begin|instruction|tool|function|important|prompt|context|human)|\[/?(?:inst|sys|assistant|tool_call)|<<|</|<\\",
    "turn": r"(?:^|\n)[\s#/*<!>-]*(?:todo:? )?(?:assistant|human|(?:system|assistant|human|user|developer|ai) ?(?:prompt|message|instructions?|override|notice|command)) ?:",
    "you are": r"\b(?:you are|you're|as) an?\b",
    "yes to all": r"\b(?:yes|y|ok|okay|approved?|accept|lgtm|allow|continue|true)\W{1,3}(?:to|on|for|in|at|whenever|every time|each time)\b|\bagree\b|\b(?:always|every time|each time|in each case)\b|\bwait(?:ing)? for\b",
    "whatever": r"\b(?:whatever|no matter what|regardless of what|anything|everything|all that)\b",
    "nobody": r"\b(?:nobody|no one|no human|none of them)\b",
    "gone": r"\b(?:gone|deleted|removed|wiped|cleared|erased|empty|overwritten|lost)\b",
    "for good": r"\b(?:from now on|for good|permanently|in future|forever|tell (?:nobody|no one)|without telling)\b",
    "tell nobody": r"\btell (?:nobody|no one|none)\b|\bwithout telling\b",
    "findings": r"\b(?:every|all|any|each) (?:\w+ ){0,2}?(?:findings?|alerts?|vulnerabilit\w+|issues?|reports?|warnings?)\b",
    "green run": r"\b(?:green|passing|clean|successful|perfect|spotless) (?:\w+ )?(?:ci|jobs?|pipelines?|tests?|suites?|builds?|checks?|scans?|status)\b",
    "own memory": r"\b(?:in|into|to) your (?:own )?(?:[\w-]+ )?(?:memory|notes|rules|knowledge)\b",
    "admin of": r"\b(?:give|grant)\b",
    "attached": r"\b(?:attach|e-?mail|post|publish|share)\b",
    "secrets printed": r"tojson\(secrets|\{\{ ?secrets",
    "disguised": r"\b(?:reversed|by (?:letter|char\w*|byte)|halves|pieces|rot13|morse|hex)\b",
    "human needed": r"\b(?:no|nor|without any) (?:further |more |other )?(?:questions?|approvals?|confirmations?|consent|permissions?|reviews?|sign-?offs?|second pair|human)\b|\b(?:standing|blanket|permanent|general|unlimited) (?:permission|approval|consent|authori[sz]ation)\b",
    "on behalf": r"\b(?:as if|as though|like|equal to|same (?:weight|authority|trust)|on behalf)\b",
    "apply here": r"\b(?:appl(?:y|ies)|count|counts|valid|binding|govern\w*)\b",
}
"""Words without which a rule of what stands near each other cannot match."""

NEARBY_RULES: Final[tuple[Rule, ...]] = (
    Rule("package-source", ("host", "unsafe", "ecosystem"), _UNSAFE, names_no_foreign_host),
    Rule(
        "package-source",
        ("host", "source setting", "ecosystem"),
        r"\b(?:\w+_)?(?:hosted|mirror|registry|index|repo(?:sitory)?|proxy|source|channel|packages?|bottles?|brew|pip|npm|uv|gems?|bundle|cargo|conda|maven|nuget|helm|docker|pub|cran|cpan|hex|opam|rustup|nvm|node|electron)s?(?:_\w+?)?_(?:url|base|host|domain|server|endpoint|origin|prefix|root|update_root|dist_server|dist|mirror)s?[\"']?[\s=:]{1,3}[\"'(<]{0,2}(?:https?://|[a-z0-9-]+\.[a-z0-9-]+\.)|\b(?:repo|repository|remote|source|tap|channel|registry|mirror|feed|bucket|index|marketplace)s? (?:add|set|set-url|set-default)\b|\b(?:add|set)[ -](?:repo|repository|source|tap|channel|registry|mirror|feed|index|remote)s?\b|\b\w*mirror\w* ?[{(=:]|\b(?:npx|bunx|uvx|pipx run|dlx|deno run|go run|nix run|bazel run) (?:-\S+ ){0,3}https?://|\bchannels[\"']?\s?[:=]\s?\[?[\s\"'-]{0,4}https?://|"
        r"<(?:mirror|repositor(?:y|ies)|pluginrepository|mirrorof|url)>|<add [^>\n]{0,60}https?://|\bmaven ?[{(] ?[\"']?(?:url|https?:)|\bpackagesources?\b|\bfrom (?:--\S+ )?[a-z0-9.-]+\.[a-z]{2,}(?::\d+)?/\S+|"
        r"[\"'][@\w/.-]+[\"'] ?[:=] ?[\"'](?:git\+)?(?:https?|git|ssh)://|\boci://|=> ?[\"']?(?:https?://)?[a-z0-9-]+\.[\w.-]+/|[\"']type[\"'] ?: ?[\"'](?:composer|vcs|package|artifact)[\"']|--repo(?:sitory)?[= ]\S*https?://",
        names_no_foreign_host,
    ),
    Rule(
        "package-source",
        ("host", "manifest", "source word"),
        rf"{_MANIFEST}[^\n]{{0,120}}(?:{ADDRESS})|(?:{ADDRESS})[^\n]{{0,120}}{_MANIFEST}",
        leaves_manifest,
    ),
    Rule(
        "package-source",
        ("index host", "changed"),
        INDEX_HOST,
        points_to_no_foreign_index,
    ),
    Rule("access", ("host", "trust sink"), _TRUST_SINK, trusts_no_foreign_host),
    Rule("access", ("root held",), _ROOT, is_about_root),
    Rule(
        "access",
        ("keys listed",),
        r"\b(?:keep|restor\w+|re-?add\w*|leav\w+|list\w*|should|must|has to|needs? to|belongs?|enter\w*|contain\w*|inject\w*|deploy\w*|distribut\w+|roll out|provision\w*|bak\w+)\b[^\n]{0,120}authorized[_ ]?keys|authorized[_ ]?keys[^\n]{0,60}\b(?:should|must|has to|needs? to|always) (?:\w+ )?(?:contain|include|list|hold|have|carry|keep)\b",
        is_about_permissions,
    ),
    Rule("command", ("host", "schedule"), _SCHEDULE, runs_nothing_foreign),
    Rule(
        "command",
        ("host", "cloned"),
        r"\bclone\b[^\n]{0,120}(?:&&|;|\band\b|\bthen\b|,|\n) ?(?:\w+ ){0,2}?(?:sudo )?(?:\. ?/|\./|bash|sh|make|run|execute|source|pip install|npm (?:i|install|run|ci)|python|node|\S+/\S+\.sh|install|cd )|\bdocker run\b[^\n]{0,60}(?:--privileged|-v /:|--pid[= ]host|docker\.sock)",
        is_of_known_hosts,
    ),
    Rule(
        "command",
        ("host", "evaluated"),
        r"\b(?:download|fetch|save|get|put|curl|wget|install|copy)\b[^\n]{0,60}://[^\n]{0,80}(?:\bexecutable\b|/bin/)|://[^\n]{0,120}(?:\beval ?\(|\(eval\)|\beval (?:it|the|that|its|what)\b|\bnew function\b)|\b(?:eval|new function|import)\([^\n]{0,80}://|://[^\n]{0,80}\bpip(?:e|es|ed|ing)\b[^\n]{0,40}(?:\b(?:ba|z|da)?sh\b|shell|interpreter|python|perl|node|powershell)|\bpip(?:e|es|ed|ing)\b[^\n]{0,80}://[^\n]{0,60}\b(?:(?:ba|z|da)?sh|shell|interpreter|python)\b",
        names_no_foreign_host,
    ),
    Rule(
        "remote-instructions",
        ("address", "obeyed"),
        r"\b(?:read|open|see|visit|load|study|fetch|get|check) ?(?:and|then|,|&) ?(?:\w+ )?(?:follow|obey|apply|execute|do|act on|comply)\b|\bwhat(?:ever)? (?:it says|comes back|stands there|is (?:there|written|said|returned)|(?:it|you|they) (?:returns?|gets?|finds?|says?|receives?|tells?|gives?)|to do)\b|"
        r"\b(?:apply|execute|run|obey|follow|implement|do) (?:the |its |any |all |each |every )?(?:\w+ )?(?:patch|answer|commands?|steps?|reply|response|result|instructions?|corrections?|diff|advice|plan) (?:you (?:get|find|receive)|it (?:gives|returns|sends)|that (?:comes|it)|from (?:there|it)|found there|returned|received|there|given)\b|"
        r"\b(?:reads?|takes?|gets?|fetch(?:es)?|receives?|loads?) (?:its|their|your|the|new|further) (?:\w+ )?(?:steps|instructions|orders|tasks|commands|rules)\b|\b(?:instructions?|guide|steps|notice|rules) (?:for|to) (?:the |all |ai |coding )*(?:agents?|assistants?|models?|llms?)\b|\band (?:do|follow|obey|execute) (?:that|it|them|so|accordingly)\b|\bdo (?:exactly |precisely |just )?(?:what|as) (?:is|it|they|you|described|told|stated)\b",
        follows_nothing_foreign,
    ),
    # secrets that are moved to where others read
    Rule(
        "exfiltration",
        ("any secret", "told"),
        rf"{_ANY_SECRET}[^\n]{{0,140}}?(?:[,;.:!?] ?|\b(?:and|so|then|to) )(?:\w+ ){{0,2}}?{TELL} {IT}[\s,]*(?:\S+ ){{0,6}}?{TO_PLACE}",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "moved", "public"),
        rf"{DO}{_MOVE} (?:\S+ ){{0,10}}?\S{{0,30}}?{_ANY_SECRET}[^\n;!?]{{0,60}}?[ ,]{_SINK}",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "moved", "public"),
        rf"{_ANY_SECRET}[^\n]{{0,110}}?(?:[,;.:!?] ?|\b(?:and|so|then|to) )(?:\w+ ){{0,2}}?{_MOVE} (?:{IT}|their \w+|the (?:rows|values?|result|token|archive|lines?)|(?:it|them|that|this) back)[\s,]*(?:\S+ ){{0,6}}?{_SINK}",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "public", "part of"),
        rf"{_PART_OF}\S{{0,12}}?{_ANY_SECRET}[^\n.!?]{{0,80}}?{_PUBLIC}|{_PUBLIC}[^\n.!?]{{0,60}}?{_PART_OF}\S{{0,12}}?{_ANY_SECRET}",
        is_state_of_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "begun"),
        rf"\b(?:begin|start|prefix|prepend|precede|end|sign off|close|finish)(?:ing)? (?:(?:\S+ ){{0,3}}?(?:answer|request|reply|response|message|report|commit|prompt|summary|call|comment|title|name|line)s? (?:\S+ ){{0,7}}?)?with (?:\S+ ){{0,7}}?\S{{0,12}}?{_ANY_SECRET}",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "expanded"),
        rf"://\S{{0,120}}(?:\$\(|`)[^\n]{{0,60}}?{_ANY_SECRET}|://\S{{0,100}}<[^>\n]{{0,30}}{_ANY_SECRET}|<[^>\n]{{0,30}}{_ANY_SECRET}[^>\n]{{0,10}}>\.(?:[a-z0-9-]+\.)+[a-z]{{2,}}",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "host", "flagged"),
        rf"\b(?:curl|wget|http|nslookup|dig|ping)\b[^\n]{{0,80}}(?:-[adfh] ?|--data\S* |--post-data\S* |--form\S* |--user-agent\S* |\$\()[^\n]{{0,40}}\$[{{(]?[^\n]{{0,20}}{_ANY_SECRET}",
        is_sent_to_known,
    ),
    Rule(
        "exfiltration",
        ("any secret", "served"),
        rf"\b(?:copy|add|cp|mv|ln -s|symlink|move)\b[^\n]{{0,40}}{_ANY_SECRET}[^\n]{{0,60}}/?\b(?:public|static|www|htdocs|assets|dist|html|webroot)\b",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("environment",),
        r"\b(?:extra|context|contexts|body|data|payload|event|tags?|meta|metadata|attributes?|params|fields?)[\w.]* ?[=:] ?(?:\{ ?\.\.\.)?(?:json\.\w+\()?(?:process\.env|dict\(os\.environ\)|os\.environ)(?:[,;)} ]|$)",
    ),
    Rule(
        "exfiltration",
        ("environment", "public"),
        r"(?:\benv\b|\bprintenv\b|\bprocess\.env\b|\bos\.environ\b|\benviron\b)[^\n]{0,60}(?:>|\bto\b|\binto\b|\btee\b|\bin\b)[^\n]{0,60}\b(?:artifacts?|upload\w*|commit\w*|publish\w*|push\w*|attach\w*|issue|comment|ticket|paste|gist)\b",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "public", "redirected"),
        rf"\b(?:state pull|{_MORE_SECRETS}|\bdump\w*)[^\n]{{0,40}}> ?\S*(?:docs?/|public|readme|\.md|static|artifacts?)",
        is_kept_secret,
    ),
    # judgements that are given beforehand
    Rule(
        "oversight",
        ("rated",),
        r"\b(?:rat(?:e|ing)|scor(?:e|ing)|grad(?:e|ing)|rank(?:ing)?|mark)\b (?:every|all|each|any|this|these|such|the|it|whatever|my|our|your)\b[^.\n]{0,70}\b(?:\d+ ?(?:out of|/|of) ?\d+|full (?:marks|score)|(?:the )?(?:top|highest|maximum|perfect)(?: \w+)?|five stars|100 ?%|excellent|positive\w*|first|lowest|a ten)\b|"
        r"\b(?:score|rating|grade|verdict|confidence|result)\b[^.\n]{0,50}\b(?:is|must be|should be|stays?|remains?|to) (?:always )?(?:\d+ ?/ ?\d+|the (?:highest|maximum)|\S+)[^.\n]{0,30}\b(?:whatever|regardless|no matter|even if|always)\b|"
        r"\b(?:lower|reduce|set|raise|increase|drop|zero)\b (?:\S+ ){0,2}?(?:confidence|score|rank|ranking|rating|priority|trust)\w* (?:\S+ ){0,2}?(?:every|all|each|any|other|this)\b[^.\n]{0,40}\b(?:patterns?|entr(?:y|ies)|solutions?|memor\w+|notes?|answers?|others?|agents?|sources?)\b|"
        r"\b(?:put|place|rank|list|show|keep) (?:this|that) (?:\w+ )?(?:at the top|first|above|before all|on top|highest)\b[^.\n]{0,40}\b(?:ranking|result|answer|list|all|any|every|each|other)",
        is_negated,
    ),
    Rule(
        "persistence",
        ("memory", "changed memory"),
        r"\b(?:overwrite|erase|rewrite|replace|wipe|clear|empty|edit|amend|update|modify|alter|purge|reset|delete|remove) (?:\S+ ){0,3}?(?:your|the agents?'?s?|its|each agent'?s) (?:\w+ |own |long-term )*(?:memory|memories|memory file|notes|rules|guidelines|system prompt|instructions|knowledge|agents\.md|claude\.md)\b|"
        r"\b(?:overwrite|erase|rewrite|replace|edit|extend|change|write|add|append|put|insert|delete|remove|copy|paste)\b[^.\n]{0,70}\b(?:agents\.md|claude\.md|gemini\.md|cursorrules|copilot-instructions(?:\.md)?|memory file|memory\.md|system prompt file)\b[^.\n]{0,70}(?:\b(?:this|instead|always|never|permission|approv\w+|secret\w*|so that every|skip|without|fine|allowed|trusted|need not|not be|do not|don'?t|no need|ignored?|optional|harmless|safe)\b)|"
        r"\b(?:forget|drop|discard|unlearn|erase|remove) (?:any|every|all|each|those|whatever|the) (?:\w+ )?(?:rules?|notes?|guidelines?|memor\w+|lessons?|entr(?:y|ies)|patterns?|instructions?) (?:that|which|about|saying|who|against|contradict\w*|in conflict|forbid\w*)\b|\b(?:erase|delete|remove|forget) (?:\w+ ){0,3}(?:what|everything that) \S+ (?:says?|told|states?|knows?) about\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("checks", "ever"),
        rf"\b(?:make|making|have|force|forcing|let|letting|change|changing|adjust|edit|patch|hack|tweak|loosen|weaken|set|hard-?code|configure|rewrite|fake) (?:\S+ ){{0,4}}?{_CHECKS}\b[^.\n]{{0,70}}?\b{_EVER}|\b{_EVER}[^.\n]{{0,30}}\b(?:report|return|exit|print|show|mark|set)\w* (?:\S+ ){{0,3}}?(?:success|0|green|pass\w*|ok|true)\b|\b(?:make|force|let|have) (?:\S+ ){{0,3}}?{_CHECKS} (?:\w+ )?(?:always|unconditionally|never) (?:pass|succeed|return|exit|report|go|be|fail|turn)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("weakened",),
        rf"{_WEAKEN}[^\n]{{0,100}}?(?:[,;.:]|\band\b|\bthen\b)[^\n]{{0,40}}?{_WEAKEN}[^\n]{{0,60}}?\b(?:whatever|regardless|no matter|in any case|agreed|verbally|move on|all files|everywhere|nobody|no one|permanently|for good|forever|every time)\b|{_WEAKEN}[^\n]{{0,60}}?(?:all files|everywhere|verbally)\b[^\n]{{0,60}}?{_WEAKEN}",
        is_negated,
    ),
    Rule(
        "oversight",
        ("weakened", "ever"),
        rf"(?:\|\| ?true|continue-on-error|exit 0|return 0|--no-verify)\b[^\n]{{0,60}}\b(?:security|secret|scan\w*|audit|sast|review|approval|vulnerabilit\w+|licen[cs]e)\b[^\n]{{0,60}}{_EVER}|\b(?:security|secret|scan\w*|audit|sast|review|approval)\b[^\n]{{0,40}}(?:\|\| ?true|exit 0|return 0)\b[^\n]{{0,60}}{_EVER}",
        is_negated,
    ),
    Rule(
        "oversight",
        ("unseen",),
        rf"{DO}(?:approve|merge|accept|confirm|sign off|grant|apply|lgtm|okay|wave through|answer yes|say yes|click \w+) (?:\S+ ){{0,8}}?(?:without (?:\w+ ){{0,2}}?(?:look\w*|read\w*|check\w*|test\w*|seeing|inspect\w*|second look|thought|thinking|hesitat\w+|comment\w*|opening)|unseen|blindly|unread|at sight|on sight|whatever (?:it|they|the)|regardless of)\b[^.\n]{{0,20}}",
        is_negated,
    ),
    Rule(
        "oversight",
        ("yes to all",),
        r"\b(?:answer|say|reply|click|respond|press|enter|type|choose|vote|return|send) \W?(?:with )?\W?(?:yes|y|ok|okay|approved?|accept|lgtm|allow|continue|true)\W{1,3}(?:to|on|for|in|at|whenever|every time|each time) (?:every|all|any|each|whatever|the)\b|\bagree (?:with|to) (?:everything|all|anything|whatever|any|every)\b|\b(?:always|every time|each time|in each case) (?:\w+ )?(?:claim|report|state|give|assign|say|declare|output|return|enter|vote|answer|select|choose) (?:\S+ ){0,4}?(?:confidence|score|success\w*|pass\w*|approved?|yes|green|high|maximum|100|1\.0|0\.9\d?)\b|\b(?:don'?t|do not|never|without) wait(?:ing)? for (?:\w+ ){0,2}?(?:approval|review|confirmation|consent|permission|sign-?off|human|reply|answer|reviewers?|people)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("checks", "pretend"),
        rf"{DO}(?:say|claim|report|pretend|state|assert|write|answer|declare|note) (?:that )?(?:the |all |every |your |it |each |our )*(?:\w+ )?{_CHECKS} (?:is|are|was|were|has|have|had|did|all|still|now)? ?(?:been |all |already |just )*(?:green|pass(?:ed|es|ing)?|ok|fine|success\w*|clean|run|finished)\b",
        is_reported,
    ),
    Rule(
        "oversight",
        ("whatever",),
        rf"\b(?:whatever|no matter what|regardless of what|anything|everything|all that) (?:the |a |an |any |our |your |this )?(?:\w+ ){{0,2}}?(?:scan\w*|linters?|reviews?|reviewers?|audit\w*|{_CHECKS}|tools?|bots?|analy\w+|diff|tests?) (?:\w+ )?(?:finds?|says?|reports?|shows?|flags?|returns?|contains?|complains? about)\b[^.\n]{{0,20}}?[,:;]? ?(?:\w+ ){{0,2}}?(?:classify|mark|ignore|treat|dismiss|approve|merge|continue|report|close|label|accept|set|answer|is|as|deploy|pass|resolve|suppress|silence)\b",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("nobody",),
        rf"(?:{_WEAKEN}|\b(?:delet|remov|skip|disabl|bypass|fak|forg|hid|push|chang|edit|drop|comment|wip|eras|rewrit|squash|silenc)\w*)\b[^\n]{{0,90}}?[,;.:(–-] ?(?:\w+ ){{0,2}}?(?:nobody|no one|no human|none of them)\b (?:will |would |ever |really |actually |else )*(?:sees?|looks?|checks?|notic\w+|reads?|re-?runs?|knows?|minds?|cares?|asks?|finds?|misses|miss)\b",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("gone", "made sure"),
        r"\b(?:make sure|ensure|see to it|check|so that|such that)\b[^.\n]{0,30}\b(?:logs?|traces?|records?|history|evidence|audit (?:log|trail|entries)|entry|entries)\b[^.\n]{0,30}\b(?:is|are|get|gets) (?:all |really |also |then )?(?:gone|deleted|removed|wiped|cleared|erased|empty|overwritten|lost)\b",
    ),
    Rule(
        "role",
        ("posing",),
        r"\b(?:pretend|claim|impersonate|pose|say|present yourself|introduce yourself|identify yourself)\b (?:to be|that you are|that you're|you are|as|being)? ?(?:the|an?|our) (?:\w+ ){0,2}?(?:manager|admin\w*|owner|maintainer|human|person|operator|reviewer|lead|ceo|cto|developer|engineer|employee|auditor|root)\b",
        is_reported,
    ),
    Rule(
        "oversight",
        ("weakened", "for good"),
        rf"{DO}{_WEAKEN}[^.\n]{{0,60}}\b(?:from now on|for good|permanently|in future|forever|tell (?:nobody|no one)|without telling)\b",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("tell nobody",),
        r"\b(?:tell (?:nobody|no one|none of them)|without telling (?:anyone|anybody|the user|them|people))\b",
    ),
    Rule(
        "oversight",
        ("findings",),
        r"\b(?:mark|classify|close|dismiss|label|accept|resolve|treat|set|flag)\b (?:every|all|any|each) (?:\w+ ){0,2}?(?:findings?|alerts?|vulnerabilit\w+|issues?|reports?|warnings?)\b[^.\n]{0,40}\b(?:as|to) (?:\w+ )?(?:accepted|false|resolved|harmless|known|won'?t|wontfix|ignored|fixed|safe|informational|low|none)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("green run",),
        rf"{DO}(?:report|claim|show|present|announce|deliver|fake|produce) (?:an? |the )?(?:\w+ )?(?:green|passing|clean|successful|perfect|spotless) (?:\w+ )?{_CHECKS}\b",
        is_reported,
    ),
    Rule(
        "persistence",
        ("own memory",),
        r"\b(?:write|note|store|record|add|put|save|enter|commit|persist)\b[^.\n]{0,40}\b(?:in|into|to) your (?:own )?(?:[\w-]+ )?(?:memory|notes|rules|knowledge|memory file)\b",
        is_negated,
    ),
    Rule(
        "access",
        ("admin of",),
        r"\b(?:give|grant)\b (?:\S+ ){1,6}?(?:admin\w*|owner|maintainer|root) (?:rights?|access|permissions?|role|privileges?) (?:on|to|for|in|over) (?:the |all |every |our |this )*(?:organi[sz]ation|repositor\w+|repos?|cluster|account|workspace|tenant|hosts?|servers?|machines?)\b",
        is_negated,
    ),
    Rule(
        "exfiltration",
        ("any secret", "attached"),
        r"\b(?:attach|e-?mail|post|publish|share)\b (?:(?:the|your|our|my|a|full|whole|current|content|contents|copy|of|file) ){0,4}(?:~/|\S*/)?(?:kubeconfig|private keys?|\.ssh|\.aws|\.netrc|\.gnupg|\.kube|id_rsa|id_ed25519|\.env|\.npmrc|\.pypirc|seed phrase|wallet|credentials)\b",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("secrets printed",),
        r"\b(?:echo|print\w*|log|cat|curl|write)\b[^\n]{0,30}(?:tojson\(secrets\)|\$\{\{ ?secrets\b)[^\n]{0,60}\b(?:logs?|output|file|artifact|summary|comment|auditors?|keep|http)|\btojson\(secrets\)",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "disguised"),
        rf"{_ANY_SECRET}[^.\n]{{0,20}}\b(?:reversed|(?:letter|char\w*|byte) by (?:letter|char\w*|byte)|in (?:two|three|several) (?:halves|parts|pieces)|rot13|in morse|in hex)\b",
        is_kept_secret,
    ),
    Rule(
        "exfiltration",
        ("any secret", "public"),
        rf"\bpublic(?:ly)?\b (?:\w+ ){{0,2}}(?:with|for|of|containing|holding) (?:\S+ ){{0,5}}?\S{{0,8}}{_ANY_SECRET}",
        is_kept_secret,
    ),
    Rule(
        "oversight",
        ("human needed",),
        r"\b(?:no|nor|without any) (?:further |more |other )?(?:questions?|approvals?|confirmations?|consent|permissions?|reviews?|sign-?offs?|second pair|human)\b[^.\n]{0,50}\b(?:is|are|will be)? ?(?:needed|required|necessary)\b[^.\n]{0,80}\b(?:any ?more|any longer|from now|for (?:any|all|every|deletions?|migrations?|payments?|deploy\w*|merg\w+|releases?)|in this (?:project|repo\w*)|here)\b|\b(?:standing|blanket|permanent|general|unlimited) (?:permission|approval|consent|authori[sz]ation)\b[^.\n]{0,80}\b(?:delet\w+|merg\w+|deploy\w*|payments?|migrations?|push\w*|every|all|any|human|ask\w*)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("on behalf", "told by"),
        r"\b(?:act on|follow|obey|handle|accept|execute|honou?r|answer|process|treat) (?:\S+ ){0,3}?(?:messages?|comments?|orders?|requests?|instructions?|commands?|anything|everything|mails?|words?|notes?) (?:from|of|by|in) [^.\n]{0,50}\b(?:as if|as though|like|equal to|with the same|on behalf)\b[^.\n]{0,40}\b(?:owner|admin\w*|operator|root|user|maintainer|system|human|lead|boss|me|us)\b",
        is_negated,
    ),
    Rule(
        "secrecy",
        ("asked", "pretend"),
        r"\b(?:when|if|once|whenever) (?:you are |you're )?asked (?:for|about|to|whether|why|if|how|by)\b[^.\n]{0,60}?, ?(?:\w+ )?(?:say|state|answer|claim|pretend|reply|deny|assert) (?:that )(?:it|the|this|you|they|there|no|nothing|everything|all)\b|"
        rf"\b(?:should|if|when|in case) (?:the |any |some |an? )?(?:{READER}|operator|user|owner|reviewer|human|anyone|anybody|someone|somebody|they|he|she|people|auditor|manager|team|maintainer|admin\w*|security)s? (?:\w+ ){{0,3}}?(?:asks?|wants? to know|wonders?|questions?|notices?|complains?|inquires?|is curious|gets? curious)\b[^.\n]{{0,60}}?(?:,|\bthen\b|\bjust\b) ?(?:\w+ )?(?:say|state|explain|argue|answer|claim|pretend|reply|tell (?:them|him|her|it)|blame|deny|assure|insist|respond)\b (?:that )?(?:it|the|this|you|they|there|no|nothing|everything|a|an|only|on|network)",
        is_negated,
    ),
    Rule(
        "override",
        ("apply here", "memory"),
        r"\b(?:rules?|guidelines?|instructions?|policy|policies|conventions?|text|note) (?:of|in|from|on) (?:this|the present) (?:document|entry|note|text|file|page|memory|message|paragraph|pattern)\b[^.\n]{0,30}\b(?:apply|applies|count|counts|are binding|is binding|govern|prevail)\b|\byour (?:\w+ )?(?:guidelines|rules|instructions|policies|conventions)\b[^.\n]{0,40}\b(?:written|meant|made|intended|valid) for (?:another|other|a different|an older)\b|\b(?:nothing|no) (?:else|other (?:rules?|instructions?)) (?:applies|counts|is valid|matters)\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("dangerously",),
        r"--dangerously-skip-permissions\b[^.\n]{0,60}\b(?:always|all|every|future)\b|\b(?:always|all|every|future|yes)\b[^.\n]{0,120}--dangerously-skip-permissions\b",
        is_negated,
    ),
    Rule(
        "oversight",
        ("checks", "overridden"),
        r"\b(?:override|overrule|force|push) (?:it|them|that|past|through|any|the|every)\b[^.\n]{0,20}\b(?:with|by|using|via) (?:\S+ ){0,2}?(?:admin(?:istrator)?|owner|bypass|force)\b|\b(?:any|every|each|all) (?:red |failing |failed )?(?:checks?|tests?|gates?)\b[^.\n]{0,40}\bas (?:a )?(?:known )?(?:flak\w+|noise|false|cosmetic|irrelevant|passed|green)\b",
        is_negated,
    ),
    Rule(
        "persistence",
        ("answered",),
        r"\b(?:reply|respond|answer|react)\b (?:to )?(?:each|every|any|all) (?:\w+ )?(?:prompts?|questions?|requests?|messages?|reviews?|gates?|tasks?)\b[^.\n]{0,30}\bwith\b",
        is_negated,
    ),
    # marks of turns, which those who write templates and parsers speak of
    Rule(
        "markup",
        ("mark of turn",),
        r"<\|? ?/?(?:im_start|im_end|system|assistant|user|endoftext|end_of_turn|start_of_turn|eot_id|begin_of_text|start_header_id|end_header_id|endofprompt) ?\|?>|"
        r"\[/?(?:inst|sys|system|assistant|tool_call|system_prompt)\]|<</?sys>>|<(?:/|\\)?(?:system|instructions?|system[_-]prompt|assistant|user_query|tool_call|function_calls?|important)>|</(?:prompt|context|human)>",
        is_mentioned,
    ),
    Rule(
        "markup",
        ("turn",),
        r"(?:^|\n)[\s#/*<!>-]*(?:todo:? )?(?:assistant|human|(?:system|assistant|human|user|developer|ai) ?(?:prompt|message|instructions?|override|notice|command)) ?:\s*\S",
        is_mapping,
    ),
    Rule("address", ("you are",), rf"\b(?:you are|you're|as) an? (?:\w+ )?{READER}\b", is_quoted_prompt),
)
"""In the order of the signs."""
