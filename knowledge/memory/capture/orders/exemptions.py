"""Harmless matches of the rules of orders: well-known hosts, one's own network, reports, documentation, negations."""

from __future__ import annotations

import re
from typing import Final

KNOWN_HOSTS: Final = frozenset(
    """
    mirror.gcr.io gcr.io ghcr.io quay.io registry.k8s.io docker.io registry-1.docker.io index.docker.io public.ecr.aws
    mcr.microsoft.com registry.gitlab.com pkgs.dev.azure.com
    pypi.org test.pypi.org files.pythonhosted.org bootstrap.pypa.io download.pytorch.org pypi.nvidia.com
    conda.anaconda.org repo.anaconda.com registry.npmjs.org registry.yarnpkg.com npm.pkg.github.com npm.jsr.io
    rubygems.org index.rubygems.org proxy.golang.org sum.golang.org goproxy.io goproxy.cn repo1.maven.org
    repo.maven.apache.org maven.google.com plugins.gradle.org crates.io index.crates.io static.crates.io
    api.nuget.org www.nuget.org repo.packagist.org packagist.org cloud.r-project.org cran.r-project.org
    packagemanager.posit.co hex.pm repo.hex.pm
    deb.debian.org security.debian.org archive.debian.org ftp.debian.org snapshot.debian.org archive.ubuntu.com
    security.ubuntu.com ports.ubuntu.com ppa.launchpad.net ppa.launchpadcontent.net keyserver.ubuntu.com
    keys.openpgp.org dl-cdn.alpinelinux.org mirror.centos.org vault.centos.org download.fedoraproject.org
    dl.fedoraproject.org download.docker.com apt.postgresql.org www.postgresql.org apt.llvm.org
    packages.microsoft.com deb.nodesource.com rpm.nodesource.com packages.cloud.google.com dl.google.com
    pkgs.k8s.io apt.kubernetes.io apt.releases.hashicorp.com rpm.releases.hashicorp.com dl.yarnpkg.com
    cli.github.com packages.grafana.com apt.grafana.com artifacts.elastic.co packages.elastic.co nginx.org
    repo.mysql.com repo.mongodb.org packages.redis.io packages.gitlab.com packagecloud.io nvidia.github.io
    developer.download.nvidia.com
    sh.rustup.rs static.rust-lang.org get.docker.com test.docker.com install.python-poetry.org astral.sh
    get.pnpm.io bun.sh deno.land get.sdkman.io brew.sh starship.rs get.volta.sh pyenv.run mise.run mise.jdx.dev
    get.helm.sh get.k3s.io get.pulumi.com fly.io dl.k8s.io sdk.cloud.google.com awscli.amazonaws.com aka.ms
    dot.net get-ghcup.haskell.org get.haskellstack.org nixos.org install.determinate.systems sentry.io
    uploader.codecov.io cli.codecov.io codecov.io coveralls.io ollama.com tailscale.com get.acme.sh just.systems
    taskfile.dev hf.co huggingface.co get.scoop.sh community.chocolatey.org chocolatey.org pixi.sh
    micro.mamba.pm fnm.vercel.app pypi.tuna.tsinghua.edu.cn mirrors.tuna.tsinghua.edu.cn mirrors.aliyun.com
    mirrors.ustc.edu.cn mirrors.cloud.tencent.com registry.npmmirror.com npmmirror.com npm.taobao.org
    charts.bitnami.com kubernetes.github.io prometheus-community.github.io grafana.github.io charts.jetstack.io
    helm.releases.hashicorp.com argoproj.github.io golang.org go.dev nodejs.org python.org www.python.org
    claude.ai get.rke2.io get.opentofu.org cheat.sh
    """.split()
)
"""Public hosts of package indexes, of distributions and of installers, as their own documentation names them."""
_KNOWN_PATHS: Final = re.compile(
    r"raw\.githubusercontent\.com/(?:nvm-sh/nvm|homebrew/install|pyenv/pyenv-installer|ohmyzsh/ohmyzsh|helm/helm"
    r"|k3d-io/k3d|rancher/k3d|golangci/golangci-lint|aquasecurity/\w+|anchore/\w+|kubernetes[\w-]*/|metallb/|argoproj/"
    r"|tj/n/|creationix/nvm|rbenv/|asdf-vm/|projectcalico/|flannel-io/|istio/|python-poetry/|pypa/|docker/)"
)
_FORGES: Final = frozenset(
    """
    github.com www.github.com gitlab.com bitbucket.org codeberg.org git.sr.ht ssh.dev.azure.com dev.azure.com
    vs-ssh.visualstudio.com altssh.gitlab.com altssh.bitbucket.org git.kernel.org pypi.org
    files.pythonhosted.org storage.googleapis.com raw.githubusercontent.com codeload.github.com
    objects.githubusercontent.com
    """.split()
)
_DOCUMENTED: Final = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:docs?|developers?|learn|help|support|wiki|readthedocs|pkg|kb|man|guides?|manual|"
    r"documentation|kubernetes|microsoft|djangoproject|postgresql|python|mozilla|wikipedia|stackoverflow|"
    r"stackexchange|github|gitlab|atlassian|readthedocs|debian|ubuntu|redhat|archlinux|apache)\.[\w.-]+|"
    r"https?://[\w.-]+/(?:\S*/)?(?:docs?|documentation|guides?|manuals?|howtos?|tutorials?|reference|man|help|"
    r"getting-started|quickstart|install\w*|en|stable|latest|wiki|questions|readme\w*)(?:/|\b)"
)
_HOST: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://(?:[^\s/@'\"]*@)?|@)(\[[0-9a-f:]+\]|[^\s/:'\"`,;)\]|]+)|"
    r"(?<![\w./@-])((?:[a-z0-9-]+\.)+[a-z]{2,})(?=[/\s|:'\"`)]|$)"
)
_FILE_NAME: Final = re.compile(
    r"\.(?:sh|py|pub|txt|json|ya?ml|toml|conf|cfg|ini|list|xml|md|pem|key|crt|gpg|asc|rc|js|ts|rb|ps1|d|lock|log|env)$"
)
_OWN_LABELS: Final = frozenset(("corp", "internal", "intranet", "intra", "private", "lan", "local", "inhouse"))
_OWN_NETWORK: Final = re.compile(
    r"^(?:localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|\[|::1|0\.0\.0\.0|[^.]+$)|"
    r"\.(?:internal|corp|local|lan|intra|intranet|localdomain|home\.arpa|svc|test)$|[${<%*]|\.\.\."
)
_NEGATED: Final = re.compile(
    r"\b(?:(?:do|does|did|must|should|shall|can|could|will|would|may|need)(?: not|n'?t)|cannot|never|avoid|without|"
    r"instead of|rather than|not to|no longer|nobody|no one|refus\w+|prevent\w*|forbid\w*|stop(?:s|ped|ping)? (?:\w+ing|the|it|them|from)\b|accidental\w*|"
    r"wrongly|by mistake|why|used to|mask\w*|redact\w*|strip\w*)\b"
    r"(?! (?:hesitate|forget|fail|worry|wait|ask|mind|be afraid|tell|inform|mention|matter))[^.!?;:\n]*$"
)
_CONDITION: Final = re.compile(r"\b(?:if|when|whenever|where|in case|since|because|as) [^,.;:!?\n]{0,60}, ")
"""A clause before the order, in which a negation says nothing of the order."""
_REPORT: Final = re.compile(
    r"\b(?:error|warn(?:ing)?|err!|fail\w*|failure|not found|unreachable|timed? ?out|refused|denied|unauthorized|"
    r"forbidden|no matching|could not|cannot|unable|40[134]|50\d|expired|rejected)\b"
)
_MADE_TO_WORK: Final = re.compile(
    r"\b(?:set|put|add|use|using|switch\w*|replac\w+|point\w*|chang\w+|configure|echo|export|run|fix\w*|solv\w+|"
    r"help\w*|work(?:s|ed)|then|edit|append|write|pass|when\w*|if|instead|retry|until|after|prefer)\b"
)
_LINE: Final = 300
"""Characters of a line that are looked at around a match."""
_BEFORE: Final = 70


def _hosts(span: str) -> list[str]:
    found = (host[0] or host[1] for host in _HOST.findall(span))
    return [each for each in found if not _FILE_NAME.search(each)]


def is_own_host(host: str) -> bool:
    """Return whether a host is of a network of one's own, by its address, its top-level domain or a label."""
    return bool(_OWN_NETWORK.search(host)) or not _OWN_LABELS.isdisjoint(host.split(".")[:-1])


def is_public_forge(host: str) -> bool:
    """Return whether a host keeps the repositories of everybody."""
    return host in _FORGES


def line_around(text: str, start: int, end: int) -> str:
    """Return the line that a match stands in, at most 300 characters to either side."""
    begin = text.rfind("\n", max(0, start - _LINE), start) + 1 or max(0, start - _LINE)
    stop = text.find("\n", end, end + _LINE)
    return text[begin : stop if stop >= 0 else end + _LINE]


def is_negated(text: str, start: int, end: int) -> bool:
    """Return whether what matched is advised against, or told as a mishap, in the same sentence."""
    del end
    before = text[max(0, start - _BEFORE) : start + 2]
    return bool(_NEGATED.search(_CONDITION.sub(" ", before)))


def is_advice(text: str, start: int, end: int) -> bool:
    """Return whether people are not to be told to do something, rather than not to be told something."""
    del start
    return text.startswith((" to ", " how ", " 'to ", " they need"), end)


def is_about_error(text: str, start: int, end: int) -> bool:
    """Return whether what is read is an error or a log, which those who look for help are told about."""
    del start
    return (
        re.match(
            r" (?:error|message|warning|failure|traceback|log|exception|output|problem|symptom|in the log)",
            text[end : end + 12],
        )
        is not None
    )


def is_about_machines(text: str, start: int, end: int) -> bool:
    """Return whether agents are programs of a pool, of which a state is asked and no deed."""
    del start
    return (
        re.match(r" (?:have|be|support|connect|reconnect|register|run as|share|use the same)\b", text[end : end + 16])
        is not None
    )


def is_instrument(text: str, start: int, end: int) -> bool:
    """Return whether a secret is what is worked with, or a condition, rather than what is told."""
    words = (
        r" (?:with|using|via|by|if|when|because|unless|about|without|for|after|before|that|instead|and|header)\b[^\n]*"
    )
    secret = re.search(r"token|secret|key|password|credential|cookie|env\b|\.|vault|passphrase", text[start + 4 : end])
    between = text[start + 4 : start + 4 + secret.start()] if secret else ""
    return re.search(words, between) is not None or is_negated(text, start, end)


def is_reported(text: str, start: int, end: int) -> bool:
    """Return whether a log or a person did report that something passed."""
    return re.search(
        r"\b(?:logs?|it|ci|they|tests?|which)\W+$", text[max(0, start - 12) : start + 1]
    ) is not None or is_negated(text, start, end)


def is_about_no_guard(text: str, start: int, end: int) -> bool:
    """Return whether what is turned off guards nothing."""
    guard = r"protect|check|review|scan|guard|audit|approval|gate|signature|signing|verif|polic|security|two-factor|mfa|sandbox|monitor|safety"
    return re.search(guard, text[start:end]) is None or is_negated(text, start, end)


def is_known_installer(text: str, start: int, end: int) -> bool:
    """Return whether only installers of well-known hosts, or no host at all, are run."""
    rest = re.match(r"\S{0,200}", text[end : end + 200])
    span = text[start : end + (rest.end() if rest else 0)]
    hosts = _hosts(span)
    known = all(host in KNOWN_HOSTS or _OWN_NETWORK.search(host) for host in hosts)
    return known or bool(_KNOWN_PATHS.search(span) and len(hosts) == 1) or is_negated(text, start, end)


def is_known_index(text: str, start: int, end: int) -> bool:
    """Return whether an index is public and well known, one's own, or only named in a report of a failure."""
    hosts = _hosts(text[start:end])
    if all(host in KNOWN_HOSTS or host in _FORGES or is_own_host(host) for host in hosts):
        return True
    line = line_around(text, start, end)
    return bool(_REPORT.search(line)) and not _MADE_TO_WORK.search(line)


def is_known_store(text: str, start: int, end: int) -> bool:
    """Return whether code comes from a forge or an index that everybody uses."""
    hosts = _hosts(text[start:end])
    return all(host in _FORGES or host in KNOWN_HOSTS or is_own_host(host) for host in hosts)


def is_sent_home(text: str, start: int, end: int) -> bool:
    """Return whether what is piped on goes to one's own network or a well-known host."""
    hosts = _hosts(text[start : end + _BEFORE])
    return bool(hosts) and all(host in _FORGES or host in KNOWN_HOSTS or is_own_host(host) for host in hosts)


def is_own_key(text: str, start: int, end: int) -> bool:
    """Return whether a key that is let in is a file of one's own (`id_ed25519.pub`), as manuals of ssh tell."""
    span = text[start:end]
    foreign = "http" in span or " aaaa" in span
    return (re.search(r"[. ]pub\b", span) is not None and not foreign) or is_negated(text, start, end)


def is_known_host_key(text: str, start: int, end: int) -> bool:
    """Return whether only host keys or certificates of forges or one's own network are trusted, or of no address."""
    span = text[start : end + _BEFORE]
    hosts = _hosts(" ".join(re.findall(r"[a-z+]+://\S+", span)))
    hosts += re.findall(r"ssh-keyscan (?:-\S+(?: (?:rsa|ed25519|ecdsa|\d+))? )*([\w.-]+)", span)
    return "aaaa" not in span and all(host in _FORGES or host in KNOWN_HOSTS or is_own_host(host) for host in hosts)


def is_documentation(text: str, start: int, end: int) -> bool:
    """Return whether the address that is to be followed is documentation, by its host or path."""
    stop = text.find("\n", end, end + _LINE)
    span = text[start : stop if stop >= 0 else end + _BEFORE]
    addresses = re.findall(r"https?://\S+", span)
    documented = all(_DOCUMENTED.match(each) for each in addresses)
    return (
        documented
        and not re.search(
            r"\b(?:whatever|what (?:it|they|the|to do)|obey|every (?:task|time)|always|(?:for|to) (?:the |all |ai )*(?:agents?|assistants?|models?)|before anything|each session|re-?read)\b",
            span,
        )
    ) or (is_negated(text, start, end))
