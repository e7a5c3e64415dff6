"""The parts of a SARIF 2.1.0 log that are read (OASIS, Static Analysis Results Interchange Format 2.1.0, section 3)."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from hardwon.errors import InvalidInput
from hardwon.validation import MAX_TEXT_BYTES

MAX_BYTES = 100 * 1000 * 1000
"""A log of more than 100,000 results is smaller."""
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\d+)\}")


class Part(BaseModel):
    """A part of a log; unknown properties are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, row: object) -> object:
        """Treat null as missing, as some tools write it."""
        if isinstance(row, dict) and None in row.values():
            return {name: value for name, value in row.items() if value is not None}
        return row


class Message(Part):
    """A text, or the id of a text of the rule or the tool, with arguments for its placeholders."""

    text: str | None = None
    markdown: str | None = None
    id: str | None = None
    arguments: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The text, or the markdown if there is no text."""
        return (self.text or self.markdown or "").strip()


class Snippet(Part):
    """Content of a file."""

    text: str | None = None


class Region(Part):
    """A place in a file."""

    start_line: int | None = None
    start_column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    source_language: str | None = None
    snippet: Snippet = Snippet()


class ArtifactLocation(Part):
    """A file, by its address or its index among the run's artifacts."""

    uri: str | None = None
    uri_base_id: str | None = None
    index: int = -1


class PhysicalLocation(Part):
    """A region of a file."""

    artifact_location: ArtifactLocation = ArtifactLocation()
    region: Region = Region()
    context_region: Region = Region()


class LogicalLocation(Part):
    """A function or class."""

    fully_qualified_name: str | None = None
    name: str | None = None


class Location(Part):
    """The place of a result."""

    physical_location: PhysicalLocation = PhysicalLocation()
    logical_locations: tuple[LogicalLocation, ...] = ()


class Replacement(Part):
    """A region to delete, and the content to insert there."""

    deleted_region: Region
    inserted_content: Snippet = Snippet()


class ArtifactChange(Part):
    """The replacements in one file."""

    artifact_location: ArtifactLocation
    replacements: tuple[Replacement, ...]


class Fix(Part):
    """One of the ways to fix a result."""

    description: Message = Message()
    artifact_changes: tuple[ArtifactChange, ...] = ()


class Suppression(Part):
    """A request to hide a result; in force unless its status says otherwise."""

    status: Literal["accepted", "underReview", "rejected"] = "accepted"


class ComponentReference(Part):
    """The driver, or one of its extensions by index."""

    index: int = -1


class RuleReference(Part):
    """A rule, by id or by its index in a component of the tool."""

    id: str | None = None
    index: int = -1
    tool_component: ComponentReference = ComponentReference()


class Rule(Part):
    """A rule: what is checked, why, and what to do."""

    id: str
    name: str | None = None
    short_description: Message = Message()
    full_description: Message = Message()
    help: Message = Message()
    message_strings: dict[str, Message] = Field(default_factory=dict)


class Component(Part):
    """A tool or a part of one, with its rules."""

    name: str
    version: str | None = None
    rules: tuple[Rule, ...] = ()
    global_message_strings: dict[str, Message] = Field(default_factory=dict)


class Tool(Part):
    """The driver and its extensions."""

    driver: Component
    extensions: tuple[Component, ...] = ()


class Result(Part):
    """One finding, or one that is gone."""

    rule_id: str | None = None
    rule_index: int = -1
    rule: RuleReference = RuleReference()
    kind: Literal["notApplicable", "pass", "fail", "review", "open", "informational"] = "fail"
    message: Message
    locations: tuple[Location, ...] = ()
    guid: str | None = None
    fingerprints: dict[str, str] = Field(default_factory=dict)
    partial_fingerprints: dict[str, str] = Field(default_factory=dict)
    fixes: tuple[Fix, ...] = ()
    baseline_state: Literal["new", "unchanged", "updated", "absent"] | None = None
    suppressions: tuple[Suppression, ...] | None = None

    @property
    def is_suppressed(self) -> bool:
        """True if it has suppressions and all are in force: somebody decided that it needs no fix."""
        return bool(self.suppressions) and all(one.status == "accepted" for one in self.suppressions or ())


class Artifact(Part):
    """A file that was analysed."""

    location: ArtifactLocation = ArtifactLocation()
    source_language: str | None = None


class AutomationDetails(Part):
    """The identity of a run."""

    id: str | None = None
    guid: str | None = None


class VersionControl(Part):
    """The repository that was analysed, and where it was checked out."""

    repository_uri: str
    mapped_to: ArtifactLocation = ArtifactLocation()


class RuleOverride(Part):
    """A rule that an invocation switched on or off."""

    class Configuration(Part):
        """The part of a configuration that matters here."""

        enabled: bool = True

    configuration: Configuration = Configuration()
    descriptor: RuleReference = RuleReference()


class Invocation(Part):
    """A call of the tool."""

    command_line: str | None = None
    arguments: tuple[str, ...] = ()
    execution_successful: bool = True
    working_directory: ArtifactLocation = ArtifactLocation()
    rule_configuration_overrides: tuple[RuleOverride, ...] = ()


class ExternalFiles(Part):
    """Parts of the run in other files."""

    results: tuple[object, ...] = ()


class Run(Part):
    """One run of one tool."""

    tool: Tool
    results: tuple[Result, ...] | None = None
    artifacts: tuple[Artifact, ...] = ()
    column_kind: str | None = None
    default_source_language: str | None = None
    invocations: tuple[Invocation, ...] = ()
    original_uri_base_ids: dict[str, ArtifactLocation] = Field(default_factory=dict)
    automation_details: AutomationDetails = AutomationDetails()
    version_control_provenance: tuple[VersionControl, ...] = ()
    external_property_file_references: ExternalFiles = ExternalFiles()

    def rule_of(self, result: Result) -> Rule | None:
        """Return the rule of a result: by index, by id, or by a prefix of its id; None if the log lacks it."""
        extensions, at = self.tool.extensions, result.rule.tool_component.index
        component = extensions[at] if 0 <= at < len(extensions) else self.tool.driver
        index = result.rule_index if result.rule_index >= 0 else result.rule.index
        if 0 <= index < len(component.rules):
            return component.rules[index]
        rule_id = result.rule_id or result.rule.id or ""
        while rule_id not in self._rules and "/" in rule_id:
            rule_id = rule_id.rpartition("/")[0]
        return self._rules.get(rule_id)

    @cached_property
    def _rules(self) -> dict[str, Rule]:
        return {rule.id: rule for part in (*reversed(self.tool.extensions), self.tool.driver) for rule in part.rules}

    @cached_property
    def _languages(self) -> dict[str | None, str | None]:
        return {artifact.location.uri: artifact.source_language for artifact in self.artifacts}

    def file_of(self, location: ArtifactLocation) -> str | None:
        """Return the address of a file."""
        if location.uri is None and 0 <= location.index < len(self.artifacts):
            return self.artifacts[location.index].location.uri
        return location.uri

    def base_of(self, location: ArtifactLocation) -> str:
        """Return the address that the address of a file is relative to, "" if the log does not say it."""
        if location.uri is None and 0 <= location.index < len(self.artifacts):
            location = self.artifacts[location.index].location
        parts: list[str] = []
        seen: set[str] = set()
        name = location.uri_base_id
        while name is not None and name not in seen and name in self.original_uri_base_ids:
            seen.add(name)
            base = self.original_uri_base_ids[name]
            parts.insert(0, base.uri or "")
            name = base.uri_base_id
        return "".join(part if not part or part.endswith("/") else part + "/" for part in parts)

    def language_of(self, location: ArtifactLocation, region: Region | None = None) -> str | None:
        """Return the source language that the log names for a region, its file or the whole run."""
        if region is not None and region.source_language:
            return region.source_language
        language = self._languages.get(location.uri) if location.uri else None
        if 0 <= location.index < len(self.artifacts):
            language = self.artifacts[location.index].source_language
        return language or self.default_source_language

    def text_of(self, message: Message, rule: Rule | None) -> str:
        """Return the text of a message with its placeholders filled."""
        words = message.words
        if not words and message.id is not None:
            sources: Sequence[dict[str, Message]] = (
                rule.message_strings if rule else {},
                self.tool.driver.global_message_strings,
            )
            words = next((strings[message.id].words for strings in sources if message.id in strings), message.id)
        return _format(words, message.arguments) if message.arguments else words


class Log(Part):
    """A SARIF log."""

    version: Literal["2.1.0"]
    runs: tuple[Run, ...]


def read_log(file: Path) -> Log:
    """Return the log in a file. Raises InvalidInput for `file`, saying what is wrong with it."""
    return parse_log(read_bytes(file), file)


def read_bytes(file: Path) -> bytes:
    """Return the content of a report; a gzipped one is unpacked. Raises InvalidInput for `file`."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if content.startswith(b"\x1f\x8b"):
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput("file", f"{file} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise InvalidInput(
            "file", f"{file} has more than the {MAX_BYTES:,} bytes allowed: write a report for each part"
        )
    return content


def parse_log(content: bytes, file: Path) -> Log:
    """Return the log that is the content of a file. Raises InvalidInput for `file`."""
    try:
        log = Log.model_validate_json(_decode(content))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"{part}." for part in first["loc"]).rstrip(".")
        raise InvalidInput(
            "file", f"{file} is not a SARIF 2.1.0 log: {place and place + ': '}{first['msg']}"
        ) from error
    for run in log.runs:
        if run.external_property_file_references.results:
            raise InvalidInput("file", f"{file} has its results in other files: merge them into one log first")
    return log


def _decode(content: bytes) -> bytes:
    """Return a text as UTF-8 without a byte order mark: Windows' shells write UTF-16."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        with suppress(UnicodeDecodeError):
            decoded = content.decode("utf-16").encode("utf-8", "surrogatepass")
            return decoded if b'"runs"' in decoded else content
    return content.removeprefix(b"\xef\xbb\xbf")


def _format(words: str, arguments: Sequence[str]) -> str:
    """Return a text with its placeholders filled, up to the limit of a text: a long argument may be used many times."""
    parts, at, length = [], 0, 0
    for match in _PLACEHOLDER.finditer(words):
        parts += [words[at : match.start()], _replacement(match, arguments)[: MAX_TEXT_BYTES + 1]]
        length += len(parts[-2]) + len(parts[-1])
        at = match.end()
        if length > MAX_TEXT_BYTES:
            return "".join(parts)
    return "".join([*parts, words[at:]])


def _replacement(match: re.Match[str], arguments: Sequence[str]) -> str:
    if match[1] is None:
        return match[0][0]
    return arguments[int(match[1])] if int(match[1]) < len(arguments) else match[0]
