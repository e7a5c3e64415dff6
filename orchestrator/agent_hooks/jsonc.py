"""Edit JSON with comments in place: everything that is not changed stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_ATOM = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_COMMA = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*,", re.DOTALL)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*(?=\n))")
_MAX_DEPTH = 100


class JsonError(ValueError):
    """The text is not the JSON that it should be."""


@dataclass(slots=True)
class Node:
    """A value and where it stands: `start` to `end`; the places of the keys of an object's members."""

    start: int
    end: int
    value: Any
    members: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class _Parser:
    text: str
    at: int = 0

    def parse(self) -> Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self.at != len(self.text):
            raise self._error("something follows the end")
        return node

    def _value(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self._error("it is nested too deep")
        start, first = self.at, self.text[self.at : self.at + 1]
        if first == "{":
            return self._object(start, depth)
        if first == "[":
            return self._array(start, depth)
        match = _STRING.match(self.text, self.at) or _ATOM.match(self.text, self.at)
        if match is None:
            raise self._error("a value is missing")
        self.at = match.end()
        return Node(start, self.at, self._load(match[0]))

    def _load(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise self._error("a text has an invalid escape") from None

    def _object(self, start: int, depth: int) -> Node:
        node = Node(start, start, {})
        self.at += 1
        while not self._ends("}", node.members):
            key_start = self.at
            match = _STRING.match(self.text, self.at)
            if match is None:
                raise self._error("a name in quotes is missing")
            key, self.at = self._load(match[0]), match.end()
            self._skip()
            self._take(":")
            self._skip()
            member = self._value(depth + 1)
            node.members[key], node.keys[key], node.value[key] = member, key_start, member.value
        node.end = self.at
        return node

    def _array(self, start: int, depth: int) -> Node:
        node = Node(start, start, [])
        self.at += 1
        while not self._ends("]", node.items):
            item = self._value(depth + 1)
            node.items.append(item)
            node.value.append(item.value)
        node.end = self.at
        return node

    def _ends(self, closing: str, before: object) -> bool:
        """Take the comma after a member, and the closing bracket; return whether it was there."""
        self._skip()
        if before and self.text[self.at : self.at + 1] == ",":
            self.at += 1
            self._skip()
        elif before and self.text[self.at : self.at + 1] != closing:
            raise self._error("a comma is missing")
        if self.text[self.at : self.at + 1] == closing:
            self.at += 1
            return True
        return False

    def _take(self, character: str) -> None:
        if self.text[self.at : self.at + 1] != character:
            raise self._error(f"{character!r} is missing")
        self.at += 1

    def _skip(self) -> None:
        if match := _BLANK.match(self.text, self.at):
            self.at = match.end()

    def _error(self, what: str) -> JsonError:
        line = self.text.count("\n", 0, self.at) + 1
        return JsonError(f"in line {line}: {what}")


def parse(text: str) -> Node:
    """Parse JSON, with comments and trailing commas. Raises JsonError with the line and what is wrong there."""
    return _Parser(text).parse()


def append(text: str, path: tuple[str, ...], item: object) -> str:
    """Return the text with an item at the end of the array at a path of names, which is made where it is missing.

    Raises JsonError where something else stands there.
    """
    node = parse(text)
    for depth, name in enumerate(path):
        if not isinstance(node.value, dict):
            raise JsonError(f"{'.'.join(path[:depth]) or 'the whole'} is not an object")
        if name not in node.members:
            rest: object = [item]
            for each in reversed(path[depth + 1 :]):
                rest = {each: rest}
            return _insert(text, node, json.dumps(name) + ": ", rest)
        node = node.members[name]
    if not isinstance(node.value, list):
        raise JsonError(f"{'.'.join(path)} is not an array")
    return _insert(text, node, "", item)


def remove(text: str, path: tuple[str, ...], index: int) -> str:
    """Return the text without an item of the array at a path, and without the parents that this leaves empty."""
    chain = [parse(text)]
    for name in path:
        chain.append(chain[-1].members[name])
    text = _cut(text, chain[-1].items, index)
    for depth in range(len(path), 0, -1):
        node = parse(text)
        for name in path[: depth - 1]:
            node = node.members[name]
        if node.members[path[depth - 1]].value:
            break
        text = _cut(text, _spans(node), list(node.members).index(path[depth - 1]))
    return text


def _insert(text: str, parent: Node, prefix: str, value: object) -> str:
    """Return the text with a member or an item at the end of a parent, written as its neighbours are."""
    spans = _spans(parent)
    unit = _indent_unit(text)
    if not spans:
        outer = _indent_at(text, parent.start)
        comments = text[parent.start + 1 : parent.end - 1].rstrip()
        new = f"\n{outer}{unit}{_render(prefix, value, unit, outer + unit)}\n{outer}"
        return f"{text[: parent.start + 1]}{comments}{new}{text[parent.end - 1 :]}"
    start, last = spans[-1].start, spans[-1].end
    comma = _comma_after(text, last, parent.end - 1)
    if "\n" not in text[parent.start : start]:
        at, before, after = (last, ", ", "") if comma is None else (comma, " ", ",")
        return f"{text[:at]}{before}{prefix}{json.dumps(value, ensure_ascii=False)}{after}{text[at:]}"
    indent = _indent_at(text, start)
    new = f"\n{indent}{_render(prefix, value, unit, indent)}"
    comment = _REST_OF_LINE.match(text, comma or last)
    at = comment.end() if comment is not None else comma or last
    if comma is None:
        return f"{text[:last]},{text[last:at]}{new}{text[at:]}"
    return f"{text[:at]}{new},{text[at:]}"


def _cut(text: str, spans: list[Node], index: int) -> str:
    """Return the text without one of several neighbours, with the comma and the space that belong to it."""
    start, end = spans[index].start, spans[index].end
    own_comma = _comma_after(text, end, len(text))
    before = text[:start].rstrip()
    if index > 0:
        if own_comma is not None:
            return before + text[own_comma:]
        previous = _comma_after(text, spans[index - 1].end, start) or start
        return before[: previous - 1] + before[previous:] + text[end:]
    if len(spans) > 1:
        return text[:start] + text[spans[1].start :]
    after = text[own_comma or end :]
    if before.endswith(("{", "[")):
        return before + after.lstrip()
    line = text.rfind("\n", 0, end)
    return before + (after if line < 0 else after[len(after) - len(after.lstrip()) - len(_last_blanks(after)) :])


def _last_blanks(after: str) -> str:
    """Return the line break before what follows, and its indentation."""
    blanks = after[: len(after) - len(after.lstrip())]
    return blanks[blanks.rfind("\n") :] if "\n" in blanks else blanks


def _spans(parent: Node) -> list[Node]:
    """Return the members or items of a parent from their beginnings to their ends."""
    members = [Node(parent.keys[name], node.end, None) for name, node in parent.members.items()]
    return members or parent.items


def _comma_after(text: str, at: int, end: int) -> int | None:
    """Return the place behind the comma that follows, with only comments between; None where there is none."""
    match = _COMMA.match(text, at, end)
    return None if match is None else match.end()


def _render(prefix: str, value: object, unit: str, indent: str) -> str:
    return prefix + json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + indent)


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _indent_unit(text: str) -> str:
    match = re.search(r"\n([ \t]+)\S", text)
    return "\t" if match is not None and match[1].startswith("\t") else match[1][:8] if match is not None else "  "
