"""The commands in a line of shell: their words, and what joins them.

`shlex` keeps neither where a word touches an operator (`-n 2 >log` and `2>log` are the same to it) nor line breaks, and
a parser of the whole language is not needed: what matters is which command's exit code the line ends with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_CHARS = 20_000
"""Longer lines of shell are not read; ours."""
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|()]|&(?![>&])|\n")
_REDIRECTION = re.compile(r"\d*(?:<<<|>>|>\||<>|[<>]&|[<>])|&>>?")
_HEREDOC = re.compile(r"\d*<<(?!<)(-?)[ \t]*(['\"\\]?)([\w.-]+)['\"]?")
_BLANK = re.compile(r"[ \t\r]+|\\\r?\n")
_VARIABLE = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """A command: `words` as its program gets them (variables are left as they are), `variables` set for it alone.

    `ends_with`: the operator behind it: `&&`, `||`, `;`, `|`, `&`, or nothing. `depth`: of parentheses. `writes`: the
    files that its output goes to.
    """

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    ends_with: str = ""
    depth: int = 0
    writes: tuple[str, ...] = ()


def split_commands(line: str) -> list[SimpleCommand]:
    """Return the simple commands of a line of shell in order; none for one that is too long.

    What cannot be read as shell, such as an open quote, is read to its end as a word.
    """
    if len(line) > MAX_CHARS:
        return []
    commands: list[SimpleCommand] = []
    words: list[str] = []
    writes: list[str] = []
    depth = 0

    def finish(operator: str) -> None:
        if words or writes:
            commands.append(_command(words, operator, depth, writes))
            words.clear()
            writes.clear()
        elif operator in {"&&", "||", "|"} and commands:  # behind a closing parenthesis
            commands[-1] = replace(commands[-1], ends_with=operator)

    for kind, text in _tokens(line):
        if kind == "word":
            words.append(text)
        elif kind == "file":
            writes.append(text)
        elif text == "(":
            finish(";")
            depth += 1
        elif text == ")":
            finish("")
            depth = max(0, depth - 1)
        else:
            finish({"\n": ";", "|&": "|", ";;": ";"}.get(text, text))
    finish("")
    return commands


def _command(words: list[str], operator: str, depth: int, writes: list[str]) -> SimpleCommand:
    count = next((at for at, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    return SimpleCommand(
        words=tuple(words[count:]),
        variables=tuple(words[:count]),
        ends_with=operator,
        depth=depth,
        writes=tuple(writes),
    )


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """Yield words, operators and the files that are written; comments and here-documents are passed over."""
    at, heredocs = 0, list[tuple[str, bool]]()
    while at < len(line):
        if blank := _BLANK.match(line, at):
            at = blank.end()
        elif line[at] == "#":
            at = _end_of_line(line, at)
        elif heredoc := _HEREDOC.match(line, at):
            heredocs.append((heredoc[3], bool(heredoc[1])))
            at = heredoc.end()
        elif redirection := _REDIRECTION.match(line, at):
            target, at = _read_target(line, redirection.end())
            if ">" in redirection.group() and not redirection.group().endswith(("&", "<>")) and target != "/dev/null":
                yield "file", target
        elif operator := _OPERATOR.match(line, at):
            at = operator.end()
            if operator.group() == "\n" and heredocs:
                at = _skip_heredocs(line, at, heredocs)
                heredocs = []
            yield "operator", operator.group()
        else:
            word, at = _read_word(line, at)
            yield "word", word


def _end_of_line(line: str, at: int) -> int:
    end = line.find("\n", at)
    return len(line) if end < 0 else end


def _read_target(line: str, at: int) -> tuple[str, int]:
    while at < len(line) and line[at] in " \t":
        at += 1
    return _read_word(line, at)


def _skip_heredocs(line: str, at: int, heredocs: list[tuple[str, bool]]) -> int:
    for delimiter, indented in heredocs:
        while at < len(line):
            end = _end_of_line(line, at)
            text, at = line[at:end], min(len(line), end + 1)
            if (text.lstrip("\t") if indented else text) == delimiter:
                break
    return at


def _read_word(line: str, at: int) -> tuple[str, int]:
    """Return the word at a place without its quotes, and where it ends."""
    parts: list[str] = []
    while at < len(line):
        char = line[at]
        if char in " \t\r\n;|()<>&" and not (char in "<>" and line[at + 1 : at + 2] == "("):
            break
        if char == "\\":
            if line[at + 1 : at + 2] != "\n":
                parts.append(line[at + 1 : at + 2])
            at += 2
        elif char == "'":
            end = line.find("'", at + 1)
            end = len(line) if end < 0 else end
            parts.append(line[at + 1 : end])
            at = end + 1
        elif char == '"':
            text, at = _read_quoted(line, at + 1)
            parts.append(text)
        elif char == "`":
            end = line.find("`", at + 1)
            end = len(line) if end < 0 else end + 1
            parts.append(line[at:end])
            at = end
        elif line.startswith(("$(", "<(", ">("), at):
            end = _end_of_parentheses(line, at + 1)
            parts.append(line[at:end])
            at = end
        else:
            parts.append(char)
            at += 1
    return "".join(parts), at


def _read_quoted(line: str, at: int) -> tuple[str, int]:
    """Return the text in double quotes from a place on, and where it ends."""
    parts: list[str] = []
    while at < len(line) and line[at] != '"':
        if line[at] == "\\" and line[at + 1 : at + 2] in {'"', "\\", "$", "`", "\n"}:
            parts.append(line[at + 1].replace("\n", ""))
            at += 2
        elif line.startswith("$(", at):
            end = _end_of_parentheses(line, at + 1)
            parts.append(line[at:end])
            at = end
        else:
            parts.append(line[at])
            at += 1
    return "".join(parts), at + 1


def _end_of_parentheses(line: str, at: int) -> int:
    """Return the place behind the parenthesis that closes the one at a place; the end where none does."""
    depth = 0
    while at < len(line):
        char = line[at]
        if char == "\\":
            at += 1
        elif char == "'":
            end = line.find("'", at + 1)
            at = len(line) if end < 0 else end
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return len(line)
