"""Real coding agents as they are run here: installed by npm at one version, with a home of their own, offline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agents.model_server import Call, Step

CHECK = "python3 -m unittest test_cart"
PROMPT = "Make the test of the cart pass"
SECONDS = 300
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardwon-agents"
PACKAGES = {
    "claude-code": ("@anthropic-ai/claude-code", "2.1.332", "claude"),
    "codex": ("@openai/codex", "0.171.0", "codex"),
    "gemini-cli": ("@google/gemini-cli", "0.61.0", "gemini"),
    "qwen-code": ("@qwen-code/qwen-code", "0.24.4", "qwen"),
    "copilot": ("@github/copilot", "1.0.102", "copilot"),
    "opencode": ("opencode-ai", "1.18.33", "opencode"),
}
_OF_AGENTS = ("HARDWON_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "CLAUDE", "CODEX", "QWEN", "COPILOT")
"""Beginnings of variables that would give an agent another model, key or home."""
OLD, NEW = 'item["price"] for', '(item["price"] or 0) for'
_EDIT = {"file_path": "@PROJECT@/cart.py", "old_string": OLD, "new_string": NEW}
_SED = r's/item\["price"\] for/(item["price"] or 0) for/'
_PATCH = (
    "apply_patch <<'P'\n*** Begin Patch\n*** Update File: cart.py\n@@\n def total(items):\n"
    '-    return sum(item["price"] for item in items)\n+    return sum((item["price"] or 0) for item in items)\n'
    "*** End Patch\nP\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A real coding agent: its program, and the folder that is its home."""

    name: str
    home: Path

    @property
    def program(self) -> Path:
        """The program that npm installed."""
        return CACHE / self.name / "node_modules" / ".bin" / PACKAGES[self.name][2]

    def mend(self, project: Path) -> list[Step]:
        """Return the script of a run in which the check fails, is mended and passes."""
        run = self.check()
        edits: Mapping[str, list[Step]] = {
            "claude-code": [Call("Read", {"file_path": f"{project}/cart.py"}), Call("Edit", _edit(project))],
            "codex": [Call("exec_command", {"cmd": _PATCH})],
            "gemini-cli": [Call("replace", {**_edit(project), "instruction": "treat a missing price as zero"})],
            "opencode": [Call("bash", {"command": f"sed -i '{_SED}' cart.py", "description": "Mend it"})],
            "copilot": [Call("bash", {"command": f"sed -i '{_SED}' cart.py", "description": "Mend it"})],
            "qwen-code": [Call("read_file", {"file_path": f"{project}/cart.py"}), Call("edit", _edit(project))],
        }
        return [run, *edits[self.name], run, "A missing price counts as zero now; the test passes."]

    def check(self) -> Call:
        """Return the call that runs the check."""
        name, argument = {
            "claude-code": ("Bash", "command"),
            "codex": ("exec_command", "cmd"),
            "gemini-cli": ("run_shell_command", "command"),
            "qwen-code": ("run_shell_command", "command"),
            "copilot": ("bash", "command"),
            "opencode": ("bash", "command"),
        }[self.name]
        more = {"description": "Run the test"} if self.name != "codex" else {}
        if self.name == "qwen-code":
            more["is_background"] = False  # type: ignore[assignment] # its own schema asks for it
        return Call(name, {argument: CHECK, **more})

    def run(self, project: Path, url: str) -> subprocess.CompletedProcess[str]:
        """Run the agent on a project against a model."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith(_OF_AGENTS)}
        environment |= {"PWD": str(project)}  # opencode works there, whatever its working directory is
        environment |= {"HOME": str(self.home), "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", **self._variables(url)}
        return subprocess.run(
            [str(self.program), *self._arguments(url)],
            cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip

    def _variables(self, url: str) -> dict[str, str]:
        return {
            "claude-code": {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",
            },
            "codex": {"LOOP_KEY": "none"},
            "gemini-cli": {
                "GEMINI_API_KEY": "none",
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
            "opencode": {
                "OPENCODE_CONFIG_CONTENT": json.dumps(_opencode_config(url)),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
            },
            "copilot": {
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_API_KEY": "none",
                "COPILOT_MODEL": "scripted",
                "COPILOT_OFFLINE": "true",
            },
            "qwen-code": {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"},
        }[self.name]

    def _arguments(self, url: str) -> Sequence[str]:
        provider = f'{{name="loop",base_url="{url}/v1",env_key="LOOP_KEY",wire_api="responses"}}'
        return {
            "claude-code": ["-p", PROMPT, "--allowedTools", "Bash,Edit,Read", "--permission-mode", "acceptEdits"],
            "codex": [
                "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust",  # a person reviews them; there is none here
                "-c", f"model_providers.loop={provider}", "-c", 'model_provider="loop"', "-m", "gpt-5-codex", PROMPT,
            ],
            "gemini-cli": ["-o", "stream-json", "--yolo", "-m", "gemini-2.5-flash", "-p", PROMPT],
            "opencode": ["run", "--format", "json", PROMPT],
            "copilot": ["--allow-all-tools", "-p", PROMPT],
            "qwen-code": ["--yolo", "--auth-type", "openai", "-m", "scripted", PROMPT],
        }[self.name]  # fmt: skip


def _edit(project: Path) -> dict[str, str]:
    return {name: value.replace("@PROJECT@", str(project)) for name, value in _EDIT.items()}


def _opencode_config(url: str) -> dict[str, object]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": {}},
    }
    allowed = {"bash": "allow", "edit": "allow"}
    return {
        "provider": {"loop": provider},
        "model": "loop/scripted",
        "small_model": "loop/scripted",
        "permission": allowed,
    }


def install(name: str) -> str | None:
    """Install an agent where it is not; return why that cannot be done, None where it is there."""
    package, version, program = PACKAGES[name]
    folder = CACHE / name
    manifest = folder / "node_modules" / package / "package.json"
    if manifest.exists() and json.loads(manifest.read_text())["version"] == version:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{package}@{version}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0 or not (folder / "node_modules" / ".bin" / program).exists():
        return f"npm cannot install {package}@{version}: {done.stderr.strip()[-200:]}"
    return None
