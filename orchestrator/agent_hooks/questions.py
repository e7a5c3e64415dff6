"""From a hook's payload to a question, and from a context to the hook's answer.

A hook never decides anything: the only field of an answer is the context. Where a payload asks for nothing, or the
memory has nothing, there is no answer at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardwon.context.context_blocks import remove_blocks
from hardwon.text.call_lines import describe_failure, find_command, is_shell
from hardwon.text.invisible import visible_text
from hardwon.text.truncation import truncate_middle
from knowledge.text.error_summary import error_lines, error_signature
from orchestrator.importers.sessions.checks import hints_at_failure

MAX_OUTPUT_BYTES = 16 * 1024
_SHOWN_CHARS = 1000
_MIN_PROMPT_WORDS = 4
"""A shorter prompt ("go", "fix it") asks for nothing that can be looked up; ours."""
_EXIT_CODE = re.compile(r"\bexit(?:ed with(?: exit)?)? code:?\s*(-?\d+)", re.IGNORECASE)
_WRAPPER = re.compile(
    r"^(?:</?untrusted_context>|Output: ?|Error: \(none\)|Exit [Cc]ode:? ?-?\d+|Signal: .*|Process Group PGID: .*"
    r"|Background PIDs: .*|<shellId: .*|<exited with exit code .*>|Command: .*|Directory: .*)",
    re.MULTILINE,
)
_SEARCH = re.compile(r"^\s*(?:\w+=\S+\s+)*(?:grep|egrep|rg|ag|ack|find|ls|cat|head|tail|sed|awk|diff|test|which|git)\b")
_INJECTED = re.compile(r"<hook_context>.*?</hook_context>\s*", re.DOTALL)
_NO_ANSWER_KINDS = ("time limit", "timed out", "permission", "denied", "rejected", "interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookQuestion:
    """A question of a hook to the memory. `once`: the moment that is answered once, however often its hook fires.

    `command`: the one that failed.
    """

    text: str
    error: str | None
    session: str
    folder: str | None
    once: str
    command: str | None = None


def read_failure(tool: str, payload: Mapping[str, Any]) -> HookQuestion | None:
    """Return the question of a hook that fires after a command; None where it did not fail, or only looked."""
    name = "bash" if tool == "opencode" else payload.get("tool_name", payload.get("toolName"))
    if not isinstance(name, str) or not is_shell(name):
        return None
    if payload.get("is_interrupt") is True:
        return None
    command = find_command(name, payload.get("tool_input", payload.get("toolArgs"))) or ""
    output, code = _outcome(tool, payload)
    if output is None or _SEARCH.match(command):
        return None
    text = visible_text(_WRAPPER.sub("", output)).strip()
    if not text or (code is None and any(word in text[:200].lower() for word in _NO_ANSWER_KINDS)):
        return None
    text = truncate_middle(text, MAX_OUTPUT_BYTES)
    words = "\n".join(error_lines(text, _SHOWN_CHARS, len))
    return HookQuestion(
        text=describe_failure(command, words),
        error=text,
        session=session_of(payload),
        folder=_text(payload.get("cwd")),
        once=f"failure {error_signature(text) or text[:500]}",
        command=command or None,
    )


def read_prompt(payload: Mapping[str, Any]) -> HookQuestion | None:
    """Return the question of a prompt; None for one that says too little, or that no person wrote."""
    prompt = remove_blocks(_INJECTED.sub("", _text(payload.get("prompt")) or "")).strip()
    if prompt.startswith(("<task-notification>", "/")) or len(prompt.split()) < _MIN_PROMPT_WORDS:
        return None
    moment = _text(payload.get("prompt_id")) or _text(payload.get("turn_id")) or prompt
    return HookQuestion(
        text=truncate_middle(prompt, MAX_OUTPUT_BYTES),
        error=None,
        session=session_of(payload),
        folder=_text(payload.get("cwd")),
        once=f"prompt {moment}",
    )


def make_answer(tool: str, event: str, block: str) -> dict[str, object]:
    """Return a hook's answer, as the tool reads it."""
    if tool in {"copilot", "opencode"}:
        return {"additionalContext": block}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}}


def _outcome(tool: str, payload: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the output of a command that failed, None for one that did not; and its exit code where it is told."""
    if tool in {"claude-code", "qwen-code"}:  # the event itself says that it failed
        error = _text(payload.get("error")) or _text(payload.get("tool_response")) or ""
        match = _EXIT_CODE.search(error)
        return (error, int(match[1]) if match else None) if error else (None, None)
    if tool == "opencode":
        code = payload.get("exit_code")
        return (_text(payload.get("tool_response")), code) if isinstance(code, int) and code else (None, None)
    response = payload.get("tool_response", payload.get("toolResult"))
    if isinstance(response, Mapping):
        response = response.get("llmContent", response.get("textResultForLlm"))
    output = _text(response)
    if output is None:
        return None, None
    if tool == "codex":  # the bare output, without an exit code
        return (output, None) if hints_at_failure(output) else (None, None)
    codes = _EXIT_CODE.findall(output)
    return (output, int(codes[-1])) if codes and int(codes[-1]) else (None, None)


def session_of(payload: Mapping[str, Any]) -> str:
    """Return the id of the session that a payload is of."""
    return (_text(payload.get("session_id")) or _text(payload.get("sessionId")) or "")[:100]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
