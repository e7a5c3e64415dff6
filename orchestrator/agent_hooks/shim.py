"""The script that all hooks run, in the data directory: their command lines never change, this may.

opencode has no hooks of commands: a plugin runs the script, and adds what it says to a command's output.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from hardwon.models.ids import CONTEXT_SECONDS
from hardwon.owner.record import socket_path
from knowledge.adapters.postgres.engine.ownership import make_home
from orchestrator.agent_hooks.hook_tools import SHIM_NAME

SPOOL_BYTES = 256 * 1024
"""Size at which the spool is moved aside, over the one before it."""

_SCRIPT = r"""#!/bin/sh
# Written by `hardwon hooks install`. Notes in the spool that an agent's session has news, and asks the memory for a
# context where that is of use. Says nothing on any trouble, decides nothing, and always ends with 0.
tool=$1 event=$2 mode=$3
folder=@FOLDER@ socket=@SOCKET@
umask 077
payload=$(cat) || exit 0
front=$(printf '%.4096s' "$payload")  # names of files stand first; to search all of a long text takes dash a minute
field() {
    value=
    rest=${front#*\"$1\":}
    [ "$rest" = "$front" ] && return
    rest=${rest# }
    case $rest in \"*) rest=${rest#\"} ;; *) return ;; esac
    case $rest in *\"*) rest=${rest%%\"*} ;; *) return ;; esac
    case $rest in *\\) ;; *) value=$rest ;; esac
}
field session_id; session=$value
[ -n "$session" ] || { field sessionId; session=$value; }
field transcript_path; transcript=$value
field cwd
spool=$folder/spool.jsonl
if [ "$mode" = capture ] && [ -f "$spool" ] && [ "$(wc -c < "$spool")" -gt @BYTES@ ]; then
    mv -f "$spool" "$spool.1"
fi
printf '{"at": %s, "tool": "%s", "event": "%s", "session_id": "%s", "transcript_path": "%s", "cwd": "%s"}\n' \
    "$(date +%s)" "$tool" "$event" "$session" "$transcript" "$value" >> "$spool"
[ "$mode" = inject ] && [ -S "$socket" ] || exit 0
case $tool/$event in
    codex/PostToolUse)
        case $payload in *rror*|*ailed*|*FAIL*|*raceback*|*xception*|*anic*|*ot\ found*) ;; *) exit 0 ;; esac ;;
    gemini-cli/AfterTool) case $payload in *'Exit Code: '*) ;; *) exit 0 ;; esac ;;
    copilot/postToolUse) case $payload in *'exit code '[1-9]*) ;; *) exit 0 ;; esac ;;
    *) case $payload in *'"prompt":""'*|*'"prompt": ""'*|*'<task-notification>'*) exit 0 ;; esac ;;
esac
answer=$(printf '%s' "$payload" | curl -sf --noproxy '*' --max-time @SECONDS@ --unix-socket "$socket" \
    -H 'Content-Type: application/json' -H 'Expect:' --data-binary @- \
    "http://hardwon/v1/hooks/$tool/$event" 2>/dev/null) || exit 0
[ -n "$answer" ] && printf '%s\n' "$answer"
exit 0
"""

_PLUGIN = """// Written by `hardwon hooks install opencode`; remove it with `hardwon hooks remove opencode`.
// After a command that failed it adds what the memory knows about the failure to the command's output.
import { spawn } from "node:child_process"

const SHIM = @SHIM@

function run(event, mode, payload) {
  return new Promise((resolve) => {
    let said = ""
    try {
      const child = spawn("sh", [SHIM, "opencode", event, mode], { stdio: ["pipe", "pipe", "ignore"] })
      const late = setTimeout(() => child.kill(), 1000)
      child.stdout.on("data", (data) => (said += data))
      child.on("error", () => resolve(""))
      child.on("close", () => (clearTimeout(late), resolve(said)))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })
}

export const Hardwon = async ({ directory }) => ({
  "tool.execute.after": async (input, output) => {
    const exit = output?.metadata?.exit
    if (input?.tool !== "bash" || typeof exit !== "number" || exit === 0) return
    const said = await run("tool.execute.after", "inject", {
      session_id: input.sessionID,
      cwd: directory,
      tool_use_id: input.callID,
      tool_input: { command: input.args?.command ?? output?.metadata?.command ?? "" },
      exit_code: exit,
      tool_response: String(output.output ?? ""),
    })
    try {
      const context = JSON.parse(said).additionalContext
      if (typeof context === "string") output.output = `${output.output}\\n\\n${context}`
    } catch {}
  },
  event: async ({ event }) => {
    if (event?.type !== "session.idle") return
    await run("session.idle", "capture", { session_id: event.properties?.sessionID ?? "", cwd: directory })
  },
})
"""


def hooks_folder(home: Path) -> Path:
    """Return the folder of the hooks in a data directory."""
    return home / "hooks"


def shim_path(home: Path) -> Path:
    """Return the script that the hooks of a data directory run."""
    return hooks_folder(home) / SHIM_NAME


def render_shim(home: Path) -> str:
    """Return the script for a data directory."""
    values = {
        "@FOLDER@": shlex.quote(str(hooks_folder(home))),
        "@SOCKET@": shlex.quote(str(socket_path(home))),
        "@BYTES@": str(SPOOL_BYTES),
        "@SECONDS@": f"{CONTEXT_SECONDS:g}",
    }
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(name, value)
    return script


def write_shim(home: Path) -> Path:
    """Write the script, whole or not at all; return its path. Raises OSError."""
    make_home(home)
    folder = hooks_folder(home)
    folder.mkdir(mode=0o700, exist_ok=True)
    temporary = folder / f".{SHIM_NAME}.new"
    temporary.write_text(render_shim(home), encoding="utf-8")
    temporary.chmod(0o700)
    return temporary.replace(shim_path(home))


def render_plugin(shim: Path) -> str:
    """Return the plugin for a data directory's script."""
    return _PLUGIN.replace("@SHIM@", json.dumps(str(shim)))
