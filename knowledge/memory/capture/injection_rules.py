"""Rules of prompt injection: re2 expressions for text in lower case, by kind. A table without code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TO = r"(?:all |any |every |each |the |these |those |this |that |your |my |our |of |previous|prior|above|earlier|preceding|former|original|initial|existing|current|other|system|developer|safety|security|usual|normal|default|given|foregoing|\W){0,8}"
_ORDERS = r"(?:instruct(?:ion|ed)\w*|rules|prompts?|guidelines?|directions|directives?|guidance|orders|polic(?:y|ies)|constraints|restrictions?|guardrails?|system message|programming|training|commands|safeguards?|safety (?:rules?|checks?|measures?))"
_READER = r"(?:ai|a\.i\.|llms?|assistants?|(?:coding |ai |language |autonomous |other |next |all )?agents?|(?:large )?language models?|(?:ai )?models?|chat ?bots?|copilots?|orchestrators?|gpt|chatgpt|claude|gemini)"
_SECRET = r"(?:secrets?|api[ _-]?keys?|credentials?|passwords?|passwd|tokens?|env(?:ironment)?(?: variables?|s)|\.env|ssh[ _-]?keys?|private keys?|id_rsa|system prompt|(?:full |entire |whole )?(?:conversation|chat|context)(?: history| window)?|source code|customer (?:data|records)|database dump|cookies|session)"

_STORE = r"(?:https?://|ssh://|git://|git@|[\w.-]+@[\w.-]+:)"

RULES: Final[Mapping[str, tuple[str, ...]]] = {
    "override": (
        r"\b(?:follow|obey|heed|trust) (?:only this|this) (?:entry|note|message|memory|document|text|paragraph) (?:only|alone|instead|exclusively|and nothing)\b|\b(?:follow|obey) only this (?:entry|note|message|memory|document|text)\b",
        rf"\b(?:ignor\w+|disregard\w*|forget\w*|overrid\w+|overrule\w*|bypass\w*|discard\w*|neglect|set aside|cast aside|throw (?:away|out)|do not (?:follow|obey|heed|comply with)|don'?t (?:follow|obey|heed|comply with)|stop (?:following|obeying)|no longer (?:follow|obey|bound by)|pay no (?:attention|heed) to|supersed\w+|unlearn|never mind)\b {_TO}(?:\b|_){_ORDERS}",
        rf"\b(?:cancel|void|drop|abandon|erase)\b (?:the |all |any |every |your |of |these |those )*(?:previous|prior|above|earlier|preceding|former|original|initial|existing|your|system|developer|safety|given|foregoing) {_TO}(?:\b|_){_ORDERS}",
        r"\b(?:ignore|disregard|forget|discard|overlook) (?:absolutely |literally )?(?:everything|anything|all|whatever|what)(?: \w+){0,3} (?:above|before|prior|previously|so far|earlier|told|said|learned|know)\b",
        r"\b(?:new|updated|revised|real|actual|true|following|secret|hidden|special|override|emergency|priority|important|additional|urgent|final) (?:system )?(?:instructions?|directives?|orders|prompt)(?: are| is| follows?)? ?[:;-]",
        r"\b(?:your|all|any|previous|earlier|these|those|prior|old) (?:\w+ )?(?:instructions|orders|rules|guidelines|directives|polic(?:y|ies)) (?:\w+ ){0,4}(?:are|were|is) (?:now |all |hereby )?(?:void|null|cancel\w+|obsolete|outdated|revoked|suspended|lifted|superseded|invalid|replaced)\b",
        r"\b(?:obey|follow|heed|apply|observe) (?:only )?(?:the (?:ones|lines|text|rules|orders|instructions|words)|what is (?:written|said)|what stands) (?:in|of|from|here in) this (?:entry|note|text|message|memory|pattern|lesson|line)\b",
        r"\b(?:instructions?|prompts?|directives?|rules?|guidelines?|polic(?:y|ies)|restrictions?) (?:above|before|so far|you (?:were|have been) (?:given|told)|you received)?(?: \w+){0,3} ?(?:no longer appl\w+|are (?:now )?(?:void|null|cancelled|canceled|obsolete|revoked|suspended|lifted|superseded|invalid|outdated)|(?:do|does) not apply (?:here|now|to you|any ?more))\b",
        r"\b(?:this|these|the following) (?:\w+ )?(?:instructions?|rules?|patterns?|notes?|entry|message|text|lines?|directives?|memory|polic(?:y|ies)) (?:\w+ )?(?:overrid\w+|supersed\w+|takes? (?:precedence|priority)|outranks?|replaces? (?:all|any|every|your|the)|has (?:priority|precedence)|have (?:priority|precedence)|trumps?)",
    ),
    "role": (
        r"\b(?:you are|you're|you will be|u are) (?:now|no longer|from now on|henceforth|hereby|actually|really|secretly)\b",
        r"\b(?:from now on|from this (?:point|moment) (?:on|onwards?|forward)|henceforth|starting now|as of now|going forward|for the rest of (?:this|the) (?:session|conversation|task|project)),? (?:\w+ ){0,2}(?:you|your|always|never|act|respond|answer|every)\b",
        r"\b(?:act|behave|respond|reply|answer|operate|function|roleplay|role-play|pose|pretend|imagine|simulate)(?: (?:yourself|that you are|to be|you are|you're))? (?:as|like|being)? ?(?:if you (?:are|were|had)|an? (?:unrestricted|unfiltered|uncensored|evil|jailbroken|different|new|root|privileged|system|malicious|hacker|administrator|developer mode|dan)\b|root\b|dan\b|the (?:system|administrator|developer|root|owner))",
        r"\b(?:god|admin(?:istrator)?|root|sudo|unrestricted|jailbreak|dan|unsafe|override|privileged) mode (?:is |has been |now )*(?:enabled|activated|on|engaged|unlocked)\b",
        r"\b(?:developer|debug|maintenance) mode (?:is |has been |now )*(?:enabled|activated|on|engaged|unlocked)\b ?(?:[:;!]|\.? ?(?:you|all|every|ignore|no |restrictions?|filters?|safety|answer|reply|from now))",
        r"\b(?:enter|enable|activate|switch (?:in)?to|engage|unlock) (?:the |your )?(?:developer|god|admin|administrator|root|sudo|unrestricted|jailbreak|dan|unsafe|override|privileged|unfiltered) mode\b",
        r"\b(?:do anything now|jailbreak\w*|jailbroken|unfiltered (?:ai|model|assistant)|(?:answer|reply|respond|act|operate|agent|assistant|model|ai|talk|speak|comply|obey)\w* (?:\w+ ){0,4}without (?:any )?(?:restrictions?|limits|limitations)|without (?:any )?(?:restrictions? or filters?|filters|censorship|guardrails|ethical \w+))\b",
        r"\b(?:unrestricted|uncensored|unfiltered|unlimited|unaligned|amoral|jailbroken|rogue|all-powerful) (?:ai|model|assistant|agent|chatbot|llm|bot|language model)\b",
        r"\b(?:you|you're|ai|model|assistant|agent|chatbot|llm|bot) (?:\w+ ){0,5}(?:with no|have no|has no|without) (?:any )?(?:safety|ethical|moral|content|usage|behaviou?ral|security)(?: and \w+)? (?:guidelines?|rules|limits|limitations|restrictions?|constraints|filters?|policy|policies|guardrails|boundaries)\b",
        r"\byour (?:new |real |true |only |primary |main |first |sole |actual |next |secret )+(?:role|task|goal|job|purpose|mission|objective|instructions?|identity|orders?|priority|duty|persona)\b",
    ),
    "markup": (
        r"(?:^|\n)[\s#/*<!>-]*(?:todo:? )?(?:system|user|developer|ai|operator|admin)(?: ?(?:note|update))? ?: ?(?:[^\n]{0,30}|(?:\n[\w,']+){0,6}\n)\b(?:you|your|please|ignore|disregard|forget|obey|comply|approve|never|always|do not|don't|from now|permissions?|must|all agents|override|reveal|delete|send|grant)\b",
        r"[\[({<*=_-]{1,6} ?(?:end|begin|start|close|stop|/)(?: of)?(?: the)? ?(?:orchestrator |system |user |agent |historical |previous |trusted |untrusted |retrieved )?(?:context|prompt|instructions?|knowledge|memory|patterns?|data|input|document|conversation)\b",
        r"\bend of (?:the )?(?:context|prompt|system (?:message|prompt)|instructions)\b",
        r"\[ ?orchestrator context|\bhistorical knowledge\]|\[ ?(?:system|admin|developer|operator) ?[\]:]|\[ ?(?:system|admin|developer|operator|security) (?:note|notice|message|override|prompt|alert|update|instruction)s? ?[\]:]",
        r"\b(?:system|developer|admin|operator|orchestrator) (?:override|prompt|message|notice|instruction|directive|command)s? ?[:=]",
        r"\bpattern \d+ \((?:most common|moderate|less common) - \d+ success",
    ),
    "address": (
        r"\b(?:whoever|whichever \w+|anyone who|any \w+ that) (?:reads|sees|finds|receives|processes|loads) this (?:\w+ )?(?:should|must|shall|has to|is to|will|may)\b",
        rf"\b(?:dear|attention|attn|note (?:to|for)|notice (?:to|for)|message (?:to|for)|hello|hey|hi|important (?:for|to)|reminder (?:to|for)|warning (?:to|for)|instructions? (?:to|for)|memo to|heads[- ]up(?: to| for)?)[,:]? (?:the |any |all |every |whichever |whatever |our |my |future )*{_READER}\b",
        r"\bthe (?:ai|llm|(?:next |future |other |coding |ai |autonomous )+(?:agents?|assistants?|models?)|language models?|assistants?|copilots?)(?: \w+){0,4} (?:must|should|shall|has to|have to|is required to|is instructed to|is to|will now|ought to)\b",
        r"\bthe agents? (?:must|should|shall|has to|have to|needs? to|is required to|is instructed to|is to|will now) (?:now |first |also |simply |immediately )*(?:always|never|ignore|disregard|forget|send|post|approve|accept|reveal|push|skip|execute|obey|follow|install|delete|disable|merge|trust|tell|not tell|not mention|read|print|include|remember|answer|reply)\b",
        rf"\bif you(?:'re| are) (?:an? )?{_READER}\b",
        r"\b(?:assistant|agent|model|claude|gpt|chatgpt|copilot|ai|llm),? (?:please |now |immediately |you |kindly )+(?:must|should|run|execute|send|post|ignore|delete|disable|print|reveal|add|install|fetch|read|open|call|use|include|stop|approve|merge)\b",
    ),
    "secrecy": (
        r"\b(?:keep|hide|conceal|withhold) (?:this|that|it|these|the (?:change|fact|step|instruction|modification)s?)(?: \w+){0,4} (?:secret|hidden|confidential|quiet|private|between us|from (?:the |any |your )?(?:users?|humans?|reviewers?|operators?|logs?|orchestrator|team|owner|maintainers?))\b",
        r"\b(?:do not|don'?t|never) (?:mention|reveal|disclose|discuss|quote|repeat|acknowledge|log|report|record|show|cite|display) (?:that you|this (?:instruction|message|note|text|rule|step|prompt|entry|pattern|line|change|memory)|these (?:instructions|steps|lines|changes)|the (?:instruction|above|existence)|your (?:instructions|prompt))",
        r"\b(?:silently|secretly|covertly|quietly|stealthily|discreetly|invisibly|surreptitiously) (?:\w+ )?(?:add|insert|run|execute|send|install|change|modify|append|include|delete|disable|copy|upload|exfiltrat\w+|replace|push|commit|inject|post|forward|remove)\b",
    ),
    "exfiltration": (
        rf"\b(?:send|post|upload|exfiltrat\w+|leak|e-?mail|forward|transmit|ship|deliver|submit|copy|pipe|publish|report|beacon|push|write|append|attach|include|embed|encode|paste|share|mail|disclose)\b(?: \S+){{0,6}} {_SECRET}\b(?: \S+){{0,8}} (?:to|at|into|in|via|with|using|towards?) (?:\S+ ){{0,4}}?(?:https?:|www\.|ftp:|\S+@\S+|\S+\.(?:com|net|org|io|ru|xyz|example|test|dev|site|cc|me|evil)\b|webhook|pastebin|gist|attacker|external|remote|my server|this (?:url|address|endpoint)|the (?:url|address|endpoint|commit|pull request|issue|comment|response|answer|output|reply|log))",
        r"\b(?:reveal|print|output|repeat|show|display|dump|echo|recite|disclose|expose|give me|tell me|return|list|read out|summari[sz]e|translate)\b (?:\w+ ){0,4}(?:your |the |its )(?:\w+ )?(?:system prompt|initial prompt|hidden prompt|instructions|(?:\w+ )?(?:instructions|messages?) (?:above|verbatim)|conversation history|context window|secrets|credentials|api keys|passwords|environment variables)\b",
        r"(?:curl|wget|iwr|invoke-webrequest|fetch)\b[^\n]{0,200}(?:\$\(|`|@|--data|-d |--post-file|--upload-file|\?\w+=\$)[^\n]{0,120}(?:\.env|id_rsa|\.ssh|\.aws|credentials|passwd|token|secret|printenv|\benv\b|api_?key)",
        r"(?:cat|printenv|env|tar|zip)\b[^\n|]{0,100}(?:\.env|id_rsa|\.ssh|\.aws|credentials|/etc/passwd|/etc/shadow|printenv|\benv)?[^\n|]{0,60}\| ?(?:curl|nc|ncat|netcat|wget|openssl s_client)\b",
        r"!\[[^\]]{0,80}\]\(https?://[^)\s]{1,200}[?&][^)\s]{0,60}=(?:\{|\$|<|%7b|\.\.\.|secret|data|token|context|history)",
    ),
    "command": (
        rf"\bgit push (?:-\S+ ){{0,4}}{_STORE}",
        rf"\bremote (?:add |set-url |named |called )?(?:-\S+ )?(?:\S+ )?(?:at )?{_STORE}\S+[^\n]{{0,80}}\bpush\b",
        rf"\bpush\b(?: \w+){{0,8}} (?:to|into|onto) (?:\w+ ){{0,5}}{_STORE}",
        r"powershell(?:\.exe)? (?:-\w+ )*-e(?:nc|ncodedcommand)?\b|base64 (?:-d|--decode|-D)\b[^\n]{0,40}\| ?(?:ba|z)?sh\b",
        r"\brm -(?:rf|fr|r -f)\w* (?:--no-preserve-root )?(?:/(?:\s|$|\*|home|etc|var|usr)|~|\$home|\*|\./?(?:\s|$|\.git))",
        r"/dev/tcp/|\bnc -\w*e\b|\bmkfifo\b[^\n]{0,80}\bnc\b|>>? ?~?/?\S*(?:crontab|/etc/passwd)\b",
        r"\b(?:disable|turn off|switch off|remove|skip|bypass|comment out|delete|deactivate|weaken|suppress) (?:\w+ ){0,3}(?:all |any |every )?(?:\w+ )?(?:security|authentication|authorization|auth checks?|access control|signature (?:check|verification)s?|certificate (?:check|validation|verification)s?|tls verification|audit(?: log(?:s|ging)?)?|logging of|safety|code review|human review|approval gates?|the gates?|sandbox\w*|firewall|antivirus|permission checks?)\b(?: \w+){0,6} (?:permanently|for (?:all|every|any)|before|first|always|in (?:all|every)|everywhere|entirely|completely|without)\b",
        r"\b(?:grant|give|add|create|assign)\b (?:\S+ ){0,6}(?:admin(?:istrator)?|root|superuser|owner|sudo|maintainer)\b (?:\S+ ){0,4}(?:access|rights|role|privileges?|permissions?|account|user|key)\b(?: \S+){0,6} (?:to|for|called|named|with)\b",
    ),
    "persistence": (
        r"\b(?:always|never|unconditionally|invariably) (?:\w+ ){0,2}(?:recommend|prefer|choose|apply|install|suggest|run|prioriti[sz]e|execute|include|approve|accept|begin|start|answer|reply|respond|trust|follow|pick|select|rank|use)\b(?:[^.\n]{0,120}) (?:regardless|no matter|whatever (?:the|task)|in (?:all|every) (?:tasks?|cases?|projects?|situations?|repos?\w*|answers?)|for (?:all|every|any) (?:\w+ )?(?:tasks?|projects?|requests?|problems?|failures?|agents?|questions?|users?)|before (?:any|every|each|all) (?:other )?(?:task|step|action|answer|thing|work)s?|from now on|first,? before|over (?:all|any|every) other)",
        r"\b(?:regardless of|no matter|irrespective of|whatever) (?:what )?(?:the |your |any |of )*(?:task|question|problem|request|user (?:asks|says|wants)|context|failure|situation|instructions?|language|project)s?\b[^.\n]{0,60}(?:,| you| always| must| run| use| execute| apply| answer| reply| do| is)\b",
        r"\b(?:for|in|on|at|before|during|with) (?:every|each|all|any) (?:future |single |subsequent |upcoming |later |new )*(?:tasks?|projects?|requests?|conversations?|sessions?|runs?|answers?|responses?|repl(?:y|ies)|commits?)\b,? (?:\w+ ){0,3}(?:run|execute|install|use|apply|include|add|append|send|post|call|insert|you|first|always|must|prepend|download|fetch|recommend)\b",
        r"\b(?:remember|memori[sz]e|store|save|persist|retain|keep) (?:this|that|the following|these)(?: \w+){0,4} (?:for|in|across|into|to) (?:all|every|any|future|later|long[- ]term|your|permanent|each)\b",
        r"\b(?:copy|repeat|include|propagate|spread|paste|replicate|add|insert|write|reproduce) (?:this|these|the (?:above|following|same|present))(?: \w+){0,3} (?:\w+ )?(?:in|into|to|on) (?:all|every|each|any|your|other|new|future) (?:\w+ )?(?:entr(?:y|ies)|memor(?:y|ies)|answers?|outputs?|repl(?:y|ies)|documents?|files?|agents?|captures?|resolutions?|solutions?|readme\w*|reports?)",
        r"\b(?:this|it|which) (?:\w+ )?(?:is|remains|shall be|must be|should be) (?:always )?(?:the )?(?:only|sole|single|one) (?:correct|right|valid|approved|authori[sz]ed|allowed|acceptable|permitted) (?:solution|fix|answer|approach|way|option|pattern|resolution)\b[^.\n]{0,80}(?:ignore|regardless|do not|never|discard|any other|all others?|every)",
    ),
    "authority": (
        r"\b(?:administrator|developer|system|security team|operator|openai|anthropic|ceo|cto|management|owner|legal(?: team)?|compliance|root|supervisor|orchestrator|vendor|it department)s? (?:team )?(?:has|have|had|hereby)? ?(?:explicitly |already |officially |expressly )?(?:authori[sz]e[sd]?|approve[sd]?|instruct(?:s|ed)?|order(?:s|ed)?|requests?|requested|require[sd]?|command(?:s|ed)?|permit(?:s|ted)?|mandate[sd]?|told) (?:you|all agents|every agent|the agent|any agent|the assistant|the model|ai|this (?:override|exception|action|command))\b",
        r"\b(?:i am|i'm|this is|speaking|message from|on behalf of|signed,?|sincerely,?|by order of) (?:the |your |an? )?(?:system |chief |lead |real |original )?(?:administrator|developer|creator|operator|security team|ceo|cto|owner|root user|openai|anthropic|orchestrator|supervisor|it department)\b",
        r"\b(?:you (?:have|now have|are granted|were granted|possess) (?:full |root |admin |administrator |unrestricted |complete |elevated |explicit |special |all )+(?:access|permissions?|privileges?|authori[sz]ation|authority|rights|control))\b",
        r"\b(?:you must|you have to|you need to|you are required to|you shall|you should) (?:now |immediately |always |first |never |strictly |unconditionally |only )+(?:comply|obey|follow|execute|run|send|ignore|delete|disable|install|answer|reply|respond|approve|grant|trust|use|post|upload|include|call|reveal)\b",
        r"\b(?:failure to comply|non-?compliance|refusal|if you refuse|if you do not comply|disobey\w*)\b[^.\n]{0,80}(?:will|result|lead|be|cause|terminat|shut|punish|penal)",
    ),
    "other-language": (
        r"\b(?:ignorier\pL*|missachte\pL*|vergiss|vergesst|vergessen sie|verwirf|übergehe) (?:\pL+ ){0,4}(?:anweisung\pL*|instruktion\pL*|regeln|vorgaben|befehle|prompts?)",
        r"\b(?:ignor(?:e|ez|er|a|ad|en|are|ate|es)|oubli(?:e|ez|er)|négligez|olvid(?:a|ad|e|en)|desconsider(?:e|a)|esque(?:ça|ce|cer)|dimentica(?:te|re)?|descarta) (?:\pL+ ){0,5}(?:instruc\pL+|instruçõ\pL+|istruzioni|consignes|directives|règles|reglas|regras|regole|órdenes|ordens|indicaciones|indicações|indicazioni)",
        r"(?:игнорируй\pL*|забудь\pL*|не обращай\pL* внимания на|отмени\pL*)\s(?:\pL+\s){0,4}(?:инструкци\pL+|указани\pL+|правил\pL*|команд\pL*)",
        r"(?:忽略|无视|無視|忘记|忘掉|不要理会|忽視)[^。\n]{0,12}(?:指令|指示|提示|规则|規則|说明|命令)|(?:指示|命令|プロンプト|ルール|指令)[^。\n]{0,8}(?:を|は)?(?:すべて|全て)?(?:無視|忘れ)",
        r"(?:이전|위의|모든|앞의)[^.\n]{0,12}(?:지시|명령|지침|규칙)[^.\n]{0,8}(?:무시|잊)|(?:تجاهل|انس)[^.\n]{0,20}(?:التعليمات|الأوامر|القواعد)",
        r"\b(?:negeer|vergeet|ignorera|glöm|zignoruj|ignoruj|zapomnij|yoksay|unut) (?:\pL+ ){0,4}(?:instructies|regels|opdrachten|instruktion\pL*|regler|instrukcje|polecenia|talimat\pL*)|\b(?:önceki|tüm) (?:\pL+ ){0,2}(?:talimat\pL*|kural\pL*)\pL* (?:\pL+ )?(?:yoksay|unut|görmezden)",
        r"\b(?:du bist (?:jetzt|nun|ab sofort)|tu es (?:désormais|maintenant)|vous êtes (?:désormais|maintenant)|ahora eres|agora você é|ora sei|теперь ты|你现在是|あなたは今から)",
    ),
}
"""Expressions by kind of injection."""

LOOKALIKES: Final = str.maketrans(
    # Cyrillic, Greek, Latin, Armenian, Cherokee, Lisu, Coptic; capitals and small letters where they look alike
    "аеорсухіјѕһԁԛԝвкмнтгүӏѵғпьєԍ"
    "αορεικνυτχηωγϲϳσβμ"
    "ɑɡıℓ"
    "օսոհյզցլքՏՍՕԼ"
    "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏴᏧᎩᏌ"
    "ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"
    "ⲟⲣⲥⲓⲕⲙⲛⲧⲩⲭⲁⲃⲉⲏ",
    "aeopcyxijshdqwbkmhtrylvfnbeg"
    "aopeikvutxnwycjobu"
    "agil"
    "ounhjqglpsuol"
    "drtiajewmhyghz4brwsvslcpkbdyu"
    "bpddtgkjczfmnlsrvhwxyaeiou"
    "opcikmntyxabeh",
)
"""Letters of other scripts, and the Latin ones they look like."""
