"""Programs: those that check, those that only start another one, and those that change something."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from orchestrator.importers.sessions.shell.words import SimpleCommand

_ANY = frozenset({"*"})
RUN_SCRIPT = frozenset({"run", "run-script"})
"""Words of npm and the like in front of a script's name."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_PROGRAMS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        re.findall(
            r"\S+",
            """pytest py.test unittest nose2 tox nox behave robot trial jest vitest mocha ava karma tap c8 nyc tsc
            vue-tsc svelte-check eslint stylelint oxlint jshint standard flake8 pylint mypy dmypy pyright basedpyright
            pyre pyflakes pycodestyle pydocstyle bandit vulture lint-imports rubocop rspec cucumber phpunit pest phpstan
            psalm golangci-lint staticcheck rustc gcc g++ clang clang++ cc c++ javac kotlinc swiftc scalac ghc
            clang-tidy
            cppcheck mvn gradle ant ninja ctest busted luacheck bats shellspec shellcheck hadolint yamllint
            actionlint markdownlint markdownlint-cli2 ansible-lint cfn-lint tflint kubeconform ktlint detekt swiftlint
            checkstyle spotbugs webpack rollup tsup msbuild xcodebuild prove flyway compileall py_compile vulture
            sqlfluff credo dialyzer""",
        ),
        _ANY,
    ),
    "black": frozenset({"--check"}),
    "isort": frozenset({"--check", "--check-only", "-c"}),
    "prettier": frozenset({"--check", "-c", "--list-different", "-l"}),
    "biome": frozenset({"check", "lint", "ci"}),
    "ty": frozenset({"check"}),
    "uv": frozenset({"build"}),
    "poetry": frozenset({"build", "check"}),
    "pip": frozenset({"check"}),
    "build": _ANY,
    "pre-commit": frozenset({"run"}),
    "cargo": frozenset(
        {"test", "t", "build", "b", "check", "c", "clippy", "nextest", "--check", "bench", "miri", "doc"}
    ),
    "go": frozenset({"test", "build", "vet", "install"}),
    "dotnet": frozenset({"test", "build", "publish", "format"}),
    "swift": frozenset({"test", "build"}),
    "flutter": frozenset({"test", "analyze", "build"}),
    "dart": frozenset({"test", "analyze", "compile"}),
    "deno": frozenset({"test", "lint", "check", "fmt"}),
    "bun": frozenset({"test", "build"}),
    "node": frozenset({"--test", "--check"}),
    "php": frozenset({"-l"}),
    "npm": frozenset({"test", "t", "tst"}),
    "pnpm": frozenset({"test", "t", "build", "lint", "typecheck", "check"}),
    "yarn": frozenset({"test", "build", "lint", "typecheck", "check"}),
    "cypress": frozenset({"run"}),
    "playwright": frozenset({"test"}),
    "vite": frozenset({"build"}),
    "next": frozenset({"build", "lint"}),
    "astro": frozenset({"build", "check"}),
    "ng": frozenset({"test", "build", "lint"}),
    "nx": frozenset({"test", "build", "lint", "run", "run-many", "affected"}),
    "turbo": frozenset({"test", "build", "lint", "run"}),
    "cmake": _ANY,
    "make": _ANY,
    "meson": frozenset({"test", "compile", "setup"}),
    "bazel": frozenset({"test", "build"}),
    "bazelisk": frozenset({"test", "build"}),
    "sbt": _ANY,
    "mix": frozenset({"test", "compile", "credo", "dialyzer", "ecto.migrate"}),
    "rebar3": frozenset({"compile", "eunit", "ct", "dialyzer"}),
    "lein": frozenset({"test", "compile", "check"}),
    "stack": frozenset({"test", "build"}),
    "cabal": frozenset({"test", "build"}),
    "zig": frozenset({"test", "build"}),
    "terraform": frozenset({"validate", "plan"}),
    "tofu": frozenset({"validate", "plan"}),
    "helm": frozenset({"lint", "template"}),
    "docker": frozenset({"build"}),
    "podman": frozenset({"build"}),
    "alembic": frozenset({"upgrade", "downgrade", "check"}),
    "rails": frozenset({"test", "db:migrate", "spec"}),
    "rake": frozenset({"test", "spec", "db:migrate", "rubocop", "*"}),
    "prisma": frozenset({"migrate", "validate", "generate", "db"}),
    "knex": frozenset({"migrate:latest", "migrate:up"}),
    "sequelize": frozenset({"db:migrate"}),
    "typeorm": frozenset({"migration:run"}),
    "liquibase": frozenset({"update", "validate"}),
    "dbt": frozenset({"run", "test", "build", "compile"}),
    "sqlx": frozenset({"migrate"}),
    "diesel": frozenset({"migration"}),
    "goose": frozenset({"up"}),
    "manage.py": frozenset({"test", "check", "migrate", "makemigrations", "validate"}),
    "artisan": frozenset({"test", "migrate"}),
    "composer": frozenset({"test", "validate"}),
    "django-admin": frozenset({"test", "check", "migrate"}),
}
"""Programs that check, and the first words behind their name with which they do; `*`: with any."""
_SCRIPT_NAME = re.compile(
    r"(?:^|[_./:-])(?:tests?|specs?|checks?|lint|build|compile|verify|validate|type-?check|types|ci|migrate|tsc|e2e|unit)"
    r"(?:[_.:-]|$)"
)
_SCRIPT_FILE = re.compile(r"\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|rb|pl|php|ps1)$")
_INTERPRETERS = frozenset({"node", "ruby", "perl", "php", "tsx", "ts-node", "deno"})
_INFORMATION = frozenset({"--help", "-h", "--version", "-V", "help", "version"})
_NO_TARGETS = frozenset(
    {"clean", "distclean", "install", "run", "serve", "up", "help", "format", "fmt", "-n", "--dry-run"}
)
_FIXES = frozenset(
    {"--fix", "--write", "-w", "--unsafe-fixes", "--autofix", "--auto-correct", "--autocorrect", "-a", "-A"}
)
_FIXERS = frozenset(
    {"ruff", "eslint", "stylelint", "biome", "rubocop", "standard", "ktlint", "prettier", "golangci-lint"}
)
_SAME_PROGRAMS = {
    "py.test": "pytest", "gradlew": "gradle", "mvnw": "mvn", "gmake": "make", "pip3": "pip", "nodejs": "node",
}  # fmt: skip
_RUNNERS = frozenset(
    re.findall(
        r"\S+",
        """npx bunx pnpx nice nohup time sudo env command exec builtin stdbuf xvfb-run ionice chronic unbuffer setsid
        doas then do else {""",
    )
)
_RUN_BY = {
    "poetry": ("run",), "uv": ("run",), "pipenv": ("run",), "pdm": ("run",), "hatch": ("run",), "rye": ("run",),
    "bundle": ("exec",), "pnpm": ("exec", "dlx"), "yarn": ("exec", "dlx"), "npm": ("exec", "x"), "bun": ("x",),
    "coverage": ("run",), "dotenv": ("run",), "mise": ("exec", "x"), "conda": ("run",), "pixi": ("run",),
}  # fmt: skip
_VALUE_OPTIONS = frozenset(
    re.findall(
        r"\S+",
        """-n -o -e -i -u -g -p -s -k -C --signal --kill-after --with --group --extra --python --package --directory
        --project --source --rcfile""",
    )
)
_CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})


def script_of_shell(words: tuple[str, ...]) -> str | None:
    """Return the script in `bash -c SCRIPT`; None for any other command."""
    if not words or posixpath.basename(words[0]) not in SHELLS:
        return None
    for at, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return words[at + 1] if len(words) > at + 1 else None
        if not word.startswith("-"):
            return None
    return None


def strip_runners(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without the programs that only start another one, such as `timeout 60` or `poetry run`."""
    while words:
        program = posixpath.basename(words[0])
        if program == "timeout":
            words = _skip_options(words[1:])[1:]
        elif program in _RUNNERS:
            words = _skip_options(words[1:])
        elif program in _RUN_BY and len(words) > 2 and words[1] in _RUN_BY[program]:
            is_module = program == "coverage" and "-m" in words[2:4]
            words = ("python", *words[words.index("-m") :]) if is_module else _skip_options(words[2:])
        elif program in _CONTAINERS and (inside := _words_in_container(words)):
            words = inside
        elif is_python(program) and words[1:3] == ("-m", "coverage"):
            words = ("coverage", *words[3:])
        else:
            break
    return words


def _words_in_container(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that `docker compose exec SERVICE COMMAND` runs; nothing for another use of containers."""
    rest = words[2:] if words[1:2] == ("compose",) else words[1:]
    return _skip_options(rest[1:])[1:] if rest[:1] in {("exec",), ("run",)} else ()


def _skip_options(words: tuple[str, ...]) -> tuple[str, ...]:
    while words and words[0].startswith("-"):
        if words[0] == "--":
            return words[1:]
        words = words[2:] if words[0] in _VALUE_OPTIONS else words[1:]
    return words


def is_python(program: str) -> bool:
    """Return whether a program is an interpreter of Python."""
    return _PYTHON.fullmatch(program) is not None


def program_of(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the program that works in the end, `python -m` and folders aside, and its arguments."""
    program, arguments = posixpath.basename(words[0].replace("\\", "/")).removesuffix(".exe"), words[1:]
    if is_python(program):
        bare = tuple(word for word in arguments[:4] if not re.fullmatch(r"-[IEsSuBbO]+|-W\S*|-X\S*", word))
        arguments = (*bare, *arguments[4:])
        if len(arguments) > 1 and arguments[0] == "-m":
            return _SAME_PROGRAMS.get(arguments[1], arguments[1]), arguments[2:]
        is_django = bool(arguments) and posixpath.basename(arguments[0]) == "manage.py"
        return ("manage.py", arguments[1:]) if is_django else ("python", arguments)
    if program == "php" and arguments[:1] == ("artisan",):
        return "artisan", arguments[1:]
    return _SAME_PROGRAMS.get(program, program), arguments


def is_named(words: tuple[str, ...], named: Sequence[str]) -> bool:
    """Return whether a command begins like one of `named`."""
    return any(words[: len(given)] == tuple(given) for given in map(str.split, named) if given)


def is_check(words: tuple[str, ...], named: Sequence[str]) -> bool:
    """Return whether a command checks: it is known to, its script's name says so, or it begins like one of `named`."""
    if is_named(words, named):
        return True
    program, arguments = program_of(words)
    if _INFORMATION & set(arguments[:1]) or (program in _FIXERS and _FIXES & set(arguments)):
        return False
    return _is_known_check(program, arguments) if program in _PROGRAMS or program == "ruff" else _runs_check(words)


def _is_known_check(program: str, arguments: tuple[str, ...]) -> bool:
    if program == "ruff":
        return arguments[:1] == ("check",) or "--check" in arguments
    if program in {"make", "gradle", "ninja", "ant"}:
        targets = {word for word in arguments if "=" not in word and (word in _NO_TARGETS or not word.startswith("-"))}
        return not targets or bool(targets - _NO_TARGETS)
    if program in {"npm", "pnpm", "yarn", "bun"} and RUN_SCRIPT & set(arguments[:1]):
        return len(arguments) > 1 and bool(_SCRIPT_NAME.search(arguments[1]))
    if program == "docker" and arguments[:1] == ("compose",):
        return "build" in arguments[:4]
    known = _PROGRAMS[program]
    return "*" in known or any(word in known for word in arguments[:6] if "/" not in word)


def _runs_check(words: tuple[str, ...]) -> bool:
    """Return whether a script is run whose name says that it checks, such as `./run_tests.sh` or `python test_x.py`."""
    program = posixpath.basename(words[0])
    if program in SHELLS or program in _INTERPRETERS or is_python(program):
        script = next((word for word in words[1:3] if not word.startswith("-")), "")
        if not _SCRIPT_FILE.search(script):
            return False
    elif "/" in words[0]:
        script = words[0]
    else:
        return False
    return bool(_SCRIPT_NAME.search(_SCRIPT_FILE.sub("", posixpath.basename(script)).lower()))


_CHANGES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "uv"), frozenset({"install", "uninstall", "add", "remove", "sync", "lock"})),
    **dict.fromkeys(("poetry", "pdm", "pipenv", "conda"), frozenset({"install", "add", "remove", "update", "lock"})),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset({"install", "i", "ci", "add", "remove", "update"})),
    **dict.fromkeys(("apt", "apt-get", "dnf", "yum", "apk", "brew", "gem"), frozenset({"install", "add", "upgrade"})),
    **dict.fromkeys(("bundle", "composer"), frozenset({"install", "update", "require", "add"})),
    "cargo": frozenset({"add", "remove", "update", "fix", "install"}),
    "go": frozenset({"get", "mod", "install"}),
    "dotnet": frozenset({"add", "restore", "remove"}),
    "alembic": frozenset({"upgrade", "downgrade", "revision", "stamp"}),
    "manage.py": frozenset({"migrate", "makemigrations", "collectstatic"}),
    "artisan": frozenset({"migrate"}),
    "rails": frozenset({"db:migrate", "db:create", "db:setup"}),
    "rake": frozenset({"db:migrate", "db:create"}),
    "prisma": frozenset({"migrate", "generate", "db"}),
    "git": frozenset({"apply", "am", "revert", "cherry-pick", "submodule"}),
    "systemctl": frozenset({"start", "restart", "enable"}),
    "service": frozenset({"start", "restart"}),
    "docker": frozenset({"compose", "start", "run"}),
    "sed": frozenset({"-i", "-i.bak", "-Ei", "-ri", "-ie", "-i''"}),
    "perl": frozenset({"-pi", "-i", "-0pi", "-pie"}),
    **dict.fromkeys(("patch", "mv", "cp", "rm", "ln", "chmod", "createdb", "psql", "tee", "gofmt", "goimports"), _ANY),
    **dict.fromkeys(("black", "isort", "autopep8", "yapf", "rustfmt", "apply_patch"), _ANY),
}
"""Programs that change the project or its surroundings, and the words with which they do; `*`: with any."""
_SCRATCH = re.compile(r"/(?:tmp|dev|var/tmp)/|&?\d?$")


def find_change(command: SimpleCommand) -> tuple[str, tuple[str, ...]] | None:
    """Return the program that changes something and the files that it changes, as far as they are told; else None."""
    files = tuple(file for file in command.writes if not _SCRATCH.match(file))
    words = strip_runners(command.words)
    if not words:
        return ("", files) if files else None
    program, arguments = program_of(words)
    fixes = program in _FIXERS and bool(_FIXES & set(arguments))
    formats = program in {"ruff", "cargo", "prettier"} and bool({"format", "fmt", "--write"} & set(arguments))
    known = _CHANGES.get(program, frozenset())
    is_checking = {"--check", "--diff", "-l", "-c"} & set(arguments) and program in {"black", "isort", "gofmt"}
    if (fixes or formats or "*" in known or set(arguments[:3]) & known) and not is_checking:
        named = program in {"sed", "perl", "mv", "cp", "rm", "patch", "tee", "black", "isort", "gofmt"}
        return program, (*files, *(word for word in arguments if named and _is_path(word)))
    return (program, files) if files else None


def _is_path(word: str) -> bool:
    return not word.startswith("-") and re.fullmatch(r"[\w./~@+-]+", word) is not None and ("." in word or "/" in word)
