"""The commands of this checkout: `python3 run.py demo`, or `make demo`, which is the same.

The first one makes a virtual environment and fills it from requirements.lock, every hash checked; later ones start at
once. Needs Python 3.11 and nothing else. VENV names another place for the environment than .venv.

The syntax is that of Python 3.6, so that an older Python can say that it is too old.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

try:
    import fcntl
except ImportError:
    sys.exit("hardwon runs on Linux and macOS; on Windows, in WSL 2 or a container.")

if sys.version_info < (3, 11):  # noqa: UP036 (the check is for those whose Python is older)
    sys.exit(
        f"hardwon needs Python 3.11 or newer, and this is {sys.version.split()[0]}: "
        "start it with a newer one, as in `make PYTHON=python3.12 demo` or `python3.12 run.py demo`."
    )

ROOT = Path(__file__).resolve().parent
VENV = ROOT / Path(os.environ.get("VENV") or ".venv").expanduser()
BIN = VENV / "bin"
LOCK = ROOT / "requirements.lock"
OURS = VENV / ".made-by-run"  # made here, so it may be made anew; names the place, for scripts in it hold that
READY = VENV / ".ready"  # written last: what it was filled from

LINT = [
    ["ruff", "format", "--check"],
    ["ruff", "check"],
    ["mypy"],
    ["lint-imports"],
]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# three processes for two cores, for a test waits for processes, disks and clocks, too; each starts servers of its own;
# `-n 0` runs all in one, as a debugger needs it
TEST = ["pytest", "-q", "-n", str(min(8, CORES + (CORES + 1) // 2)), "--dist", "worksteal"]
RELOCK = (
    "uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-emit-index-url"
    " --no-header pyproject.toml -o requirements.lock"
)
# a tool of an audit, not of the project: uv fetches it when it is asked for
SBOM = (
    "uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements requirements.lock"
    " --pyproject pyproject.toml --mc-type library --output-reproducible --output-format JSON --output-file sbom.json"
)
LOADED = (
    "asyncpg",
    "hardwon.blocking",
    "knowledge.adapters.postgres.engine.embedded_server",
    "knowledge.adapters.qdrant.edge",
    "onnxruntime",
    "orchestrator.cli.commands.root",
    "orchestrator.http.app",
    "orchestrator.http.uvicorn",
    "orchestrator.observability.logging",
    "orchestrator.server.serve",
    "rich.progress",
    "tokenizers",
)
"""What commands and the owner process load: its bytecode is made at the installation, or the first command would."""
COMMANDS: dict[str, tuple[str, list[list[str]]]] = {
    "demo": ("the main job on real input, start to finish", [["hardwon", "demo"]]),
    "test": ("the tests, without those that take seconds each; of those that are named, all", [TEST]),
    "long": ("the tests that take seconds each", [[*TEST, "-m", "long and not harness"]]),
    "harness": (
        "the short forms of faults, soak, isolation and evaluate: not for every change, but for each release",
        [[*TEST, "-m", "harness"]],
    ),
    "check": ("format, lint, types, import contracts, then every test", [*LINT, TEST]),
    "lint": ("the fast half of check", LINT),
    "faults": ("kills, outages, races, full disks: the long form", [["python", "-m", "tests.faults"]]),
    "figures": (
        "promises at their whole figures, where that takes longer: one key told 16,000 times, 2,000 nodes that die",
        [["python", "-m", "tests.faults", "--figures"]],
    ),
    "campaigns": (
        "1,000 campaigns of an attacker who has a capture key, against trusted lessons",
        [["python", "-m", "tests.faults.campaigns"]],
    ),
    "contract": (
        "the HTTP API against its own description, by generated requests",
        [["python", "-m", "tests.contract_http"]],
    ),
    "soak": ("200,000 random operations against a model", [["python", "-m", "tests.faults.soak"]]),
    "isolation": ("200 workspaces, 100,000 operations: does one see another", [["python", "-m", "tests.isolation"]]),
    "scale": (
        "each operation in stores of N entries: `--write` puts the table into the docs",
        [["python", "-m", "benchmarks.scale"]],
    ),
    "agents": (
        "real coding agents with our hooks, against a scripted model: needs npm",
        [["python", "-m", "tests.agents"]],
    ),
    "guards": (
        "guard suites of others, agent-memory-integrity and AMSB, against a real store: needs PyPI",
        [["python", "-m", "tests.guards"]],
    ),
    "serve": ("the API, the scheduler and the web page, on 127.0.0.1:8420", [["hardwon", "serve"]]),
    "bench": ("the benchmarks", [["python", "-m", "benchmarks"]]),
    "evaluate": ("quality on labelled sets", [["python", "-m", "benchmarks.evaluate"]]),
    "requirements": ("each requirement of document Q&A with its test", [["python", "-m", "tests.requirements"]]),
    "lying": ("10,000 lies of a model, and which survive", [["python", "-m", "benchmarks.lying"]]),
    "docs": (
        "pages of docs/ with a search, in dist/docs; a link that leads nowhere is an error",
        [
            ["sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html", "docs", "dist/docs"],
            ["python", "-c", "print('open dist/docs/index.html')"],
        ],
    ),
    "screenshots": (
        "six pictures of pages into docs/pictures: needs Chromium",
        [["python", "-m", "tests.acceptance.pages.screenshots"]],
    ),
    "lock": ("write requirements.lock anew from pyproject.toml", [RELOCK.split()]),
    "sbom": ("write sbom.json, what all of it is made of (CycloneDX)", [SBOM.split()]),
    "audit": ("look for known vulnerabilities in what is locked", [["python", "-m", "tests.vulnerabilities"]]),
    "ready": ("make or renew the environment, and no more", []),
}


def main(arguments: list[str]) -> int:
    """Do what was asked; arguments after the command's name go to its last step."""
    name, *rest = arguments or ["help"]
    if name in {"help", "-h", "--help"}:
        print("python3 run.py COMMAND [arguments], or make COMMAND [ARGS=...]\n")
        print("\n".join(f"  {command:<14}{says}" for command, (says, _) in COMMANDS.items()))
        return 0
    if name not in COMMANDS:
        print(f"hardwon: there is no command {name!r}; `python3 run.py help` lists them.", file=sys.stderr)
        return 2
    try:
        make_ready()
    except OSError as error:
        sys.exit(f"hardwon: cannot make {VENV}: {error}. Name another place, as in VENV=~/hardwon-venv.")
    if name == "test" and not chosen(rest):
        rest = ["-m", "not long", *rest]
    return steps(COMMANDS[name][1], rest)


def chosen(arguments: list[str]) -> bool:
    """Whether arguments of pytest say themselves which tests are meant: by a mark, a name, a file or what failed."""
    return any(
        argument.startswith(("-k", "-m", "--lf", "--last-failed")) or (ROOT / argument.partition("::")[0]).exists()
        for argument in arguments
    )


def steps(commands: list[list[str]], rest: list[str]) -> int:
    """Run each command from the root of the checkout, up to the first that fails."""
    os.chdir(ROOT)
    for number, command in enumerate(commands, start=1):
        program = BIN / command[0]
        if not program.exists():
            sys.exit(f"hardwon: {program} is missing: remove {VENV} and run this again.")
        line = [str(program), *command[1:]]
        if number == len(commands):
            sys.stdout.flush()
            os.execve(program, [*line, *rest], environment())  # noqa: S606 (so that signals reach it)
        say(" ".join(command))
        code = subprocess.call(line, env=environment())
        if code:
            return code
    return 0


def environment() -> dict[str, str]:
    """Return our environment without what would lead Python or pip elsewhere, with the programs of VENV first.

    Bytecode is always kept: else every start would compile it all again.
    """
    astray = {"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_TARGET", "PIP_USER"}
    env = {key: value for key, value in os.environ.items() if key not in astray}
    env |= {"VIRTUAL_ENV": str(VENV), "PATH": f"{BIN}{os.pathsep}{env.get('PATH', os.defpath)}"}
    if not os.access(ROOT, os.W_OK):
        env |= {
            "HYPOTHESIS_STORAGE_DIRECTORY": str(VENV / "cache" / "hypothesis"),
            "MYPY_CACHE_DIR": str(VENV / "cache" / "mypy"),
            "PYTEST_ADDOPTS": f"{env.get('PYTEST_ADDOPTS', '')} -o cache_dir={shlex.quote(str(VENV / 'cache/pytest'))}",
            "RUFF_CACHE_DIR": str(VENV / "cache" / "ruff"),
        }
    return env


def make_ready() -> None:
    """Make or renew the environment, unless it holds what requirements.lock and pyproject.toml say."""
    wanted = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if is_ready(wanted):
        return
    VENV.parent.mkdir(parents=True, exist_ok=True)
    turn = os.open(VENV.parent, os.O_RDONLY)
    os.set_inheritable(turn, True)  # noqa: FBT003 (if we are killed, a pip that goes on keeps its turn)
    fcntl.flock(turn, fcntl.LOCK_EX)  # two commands at once: one makes it, the other waits
    if not is_ready(wanted):
        began = time.monotonic()
        fill(make_venv())
        READY.write_text(wanted)
        say(f"ready in {time.monotonic() - began:.0f} s")
    os.close(turn)


def is_ready(wanted: str) -> bool:
    """Whether the environment was filled from these files, and stands where it was made."""
    moved = OURS.exists() and OURS.read_text() != str(VENV)
    return (BIN / "python").exists() and READY.exists() and READY.read_text() == wanted and not moved


def make_venv() -> list[str]:
    """Make the environment, or take the one that is there; return the command of a pip that fills it.

    One of ours that a killed installation or a move left useless is made anew; somebody else's is only added to.
    """
    python = BIN / "python"
    whole = READY.exists() and python.exists() and OURS.exists() and OURS.read_text() == str(VENV)
    if OURS.exists() and not whole:
        shutil.rmtree(VENV)
    there = VENV.exists() and any(VENV.iterdir())
    if there and not python.exists():
        sys.exit(
            f"hardwon: {VENV} holds no virtual environment that works: name a new place, as in VENV=~/hardwon-venv."
        )
    READY.unlink(missing_ok=True)
    if not there:
        VENV.mkdir(exist_ok=True)
        OURS.write_text(str(VENV))
        venv.create(VENV, symlinks=True)
    # A pip that is there is asked first: making one takes longer than all that comes after.
    for pip in ([str(python), "-m", "pip"], [sys.executable, "-m", "pip", "--python", str(python)]):
        if attempt([*pip, "--version"]) is None:
            return pip
    if attempt([str(python), "-m", "ensurepip"]):
        sys.exit("hardwon: this Python has neither pip nor ensurepip: install one, as `apt install python3-venv` does.")
    return [str(python), "-m", "pip"]


def fill(pip: list[str]) -> None:
    """Install what requirements.lock names, by hash, then this checkout, editable.

    uv does it in a fraction of pip's time; where it cannot (a proxy, a mirror, a platform it lacks), pip does.
    """
    count = len(re.findall(r"(?m)^\S+==", LOCK.read_text()))
    say(f"installing {count} packages into {VENV} (this once; 10 to 60 s)")
    exact = ["--require-hashes", "--no-deps", "-r"]
    tools = re.findall(r"(?m)^(?:pip|uv)==.*\n(?: .*\n)*", LOCK.read_text())
    failed: str | None = "uv is not in requirements.lock"
    if tools:
        first = VENV / "tools.lock"
        first.write_text("".join(tools))
        install([*pip, "install", "--no-compile", *exact, str(first)])
        pip = [str(BIN / "python"), "-m", "pip"]
        uv = [str(BIN / "uv"), "pip", "install", "--python", str(BIN / "python"), *exact, str(LOCK)]
        failed = attempt(uv, index_of(pip))
    if failed:
        say(f"uv could not ({failed.splitlines()[0].strip()}), so pip does it: up to a minute")
        install([*pip, "install", "--no-compile", *exact, str(LOCK)])
    install([*pip, "install", "--no-compile", "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    install([str(BIN / "python"), "-c", f"import {', '.join(LOADED)}"])


def index_of(pip: list[str]) -> dict[str, str]:
    """Return, in uv's words, the package index that pip was set up with, and whose certificates it trusts."""
    config = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, env=environment(), check=False)
    told = {"UV_HTTP_RETRIES": "1", "UV_SYSTEM_CERTS": "1"}
    for name, variable in (("index-url", "UV_DEFAULT_INDEX"), ("cert", "SSL_CERT_FILE")):
        found = re.findall(rf"(?m)\.{name}='(.*)'$", config.stdout)
        if found:
            told[variable] = found[-1]
    return told


def install(command: list[str]) -> None:
    """Run one step of the installation; its output is shown only if it fails."""
    failed = attempt(command, {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"})
    if failed:
        print(*failed.splitlines()[-20:], sep="\n", file=sys.stderr)
        sys.exit("hardwon: the installation failed, as said above; once that is put right, run this again.")


def attempt(command: list[str], extra: dict[str, str] | None = None) -> str | None:
    """Return what a command that failed had to say, or None."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        close_fds=False,
        env=environment() | (extra or {}),
        check=False,
    )
    return (done.stdout.strip() or f"exit code {done.returncode}") if done.returncode else None


def say(what: str) -> None:
    """Tell a person, on stderr, what goes on."""
    print(f"hardwon: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
