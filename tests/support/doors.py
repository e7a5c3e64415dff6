"""The doors as lines of text, one for each route, tool and command, so that what a change does to them can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from typer.core import TyperGroup

from hardwon.client.transport import WORKSPACE_HEADER
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.cli.commands.root import app as commands
from orchestrator.cli.support.run import make_lazy_group
from orchestrator.http.app import make_app
from orchestrator.mcp.tools import TOOLS

Json = Mapping[str, Any]
_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")


def routes() -> list[str]:
    """Return the OpenAPI document: a line for each operation and for each type that is answered."""
    unopened = SimpleNamespace(settings=KnowledgeSettings())  # nothing is asked of it
    document = make_app(cast(Knowledge, unopened)).openapi()
    schemas = document["components"]["schemas"]
    lines, bodies = [], set()
    for path, methods in document["paths"].items():
        for verb, operation in methods.items():
            named, takes = _body(operation, schemas)
            bodies |= named
            takes += [
                f"{each['in']} {_field(each['name'], each)}"
                for each in operation.get("parameters", ())
                if each["name"] != WORKSPACE_HEADER
            ]
            answers = [_answer(status, answer) for status, answer in sorted(operation["responses"].items())]
            scopes = " and ".join(operation.get("x-hardwon-scopes", ["nobody's"]))
            name = f"{verb.upper()} {path} {operation['operationId']} [{' '.join(operation['tags'])}, {scopes}]"
            lines.append(f"{name} takes {'; '.join(sorted(takes)) or 'nothing'} answers {', '.join(answers)}")
    lines += [f"{name}: {_members(schema)}" for name, schema in schemas.items() if name not in bodies]
    return sorted(lines)


def tools() -> list[str]:
    """Return the list of MCP tools: a line for each."""
    lines = []
    for tool in TOOLS.values():
        says = " ".join(tool.description.split())
        name = f"{tool.name}: {tool.title!r} [{' '.join(tool.operations)}{', reads' if tool.read_only else ''}] {says}"
        schema = tool.answer_schema()
        answers = "nothing" if schema is None else f"{schema['title']}: {_members(schema)}"
        lines.append(f"{name} Takes {_members(dict(tool.arguments))} Answers {answers}")
    return sorted(lines)


def helps() -> list[str]:
    """Return the help of all commands: a line for each."""
    return sorted(_helps(make_lazy_group(commands, before=lambda: None), ()))


def _body(operation: Json, schemas: Json) -> tuple[set[str], list[str]]:
    """Return the names of the types of a body, which only this operation has, and its fields."""
    request = operation.get("requestBody", {})
    named: set[str] = set()
    takes = []
    for kind, content in request.get("content", {}).items():
        name = next(iter(_references(content["schema"])), None)
        schema = content["schema"] if name is None else schemas[name]
        named |= set() if name is None else {name}
        optional = "" if request.get("required") else "?"
        takes.append(f"{kind.removeprefix('application/')}{optional} {_members(schema)}")
    return named, takes


def _answer(status: str, answer: Json) -> str:
    if status.startswith(("4", "5")):
        return status
    kinds = [_kind(content["schema"]) for content in answer.get("content", {}).values() if content.get("schema")]
    return " ".join([status, *kinds])


def _members(schema: Json) -> str:
    required = schema.get("required", ())
    members = [_field(name, {"schema": each}, name in required) for name, each in schema.get("properties", {}).items()]
    text = ", ".join(sorted(members)) if "properties" in schema else _kind(schema)
    return "{" + text + ("}" if schema.get("additionalProperties") is False else ", ...}")


def _field(name: str, told: Json, required: bool | None = None) -> str:  # noqa: FBT001 - of JSON schemas
    schema = told["schema"]
    required = told.get("required") if required is None else required
    default = "" if required else f" = {schema.get('default')}"
    return f"{name}: {_kind(schema)}{default}"


def _kind(schema: Json) -> str:
    """Return a JSON schema as one writes a type."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(_kind(each) for each in schema["anyOf"])
    name = str(schema.get("type", "anything"))
    if "enum" in schema:
        name = " | ".join(map(str, schema["enum"]))
    if "items" in schema:
        name = f"list of {_kind(schema['items'])}"
    bounds = [f"{bound} {_plain(schema[bound])}" for bound in _BOUNDS if bound in schema]
    return f"{name} ({' '.join(bounds)})" if bounds else name


def _plain(bound: object) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _references(schema: Json) -> Iterator[str]:
    for each in (schema, *schema.get("anyOf", ())):
        if "$ref" in each:
            yield each["$ref"].rpartition("/")[2]


def _helps(command: Any, typed: tuple[str, ...]) -> Iterator[str]:
    context = command.make_context("hardwon", [], resilient_parsing=True)
    made = context.command
    takes = []
    for each in made.get_params(context):
        if each.name == "help":
            continue
        shown = each.get_help_record(context)
        says = f"{each.human_readable_name} <{each.type.name}>" if shown is None else ": ".join(shown)
        takes.append(f"{'' if each.required else '?'}{' '.join(says.split())}")
    yield f"{' '.join(('hardwon', *typed))}: {' '.join((made.help or '').split())} Takes {'; '.join(takes)}"
    if isinstance(made, TyperGroup):
        for word, inner in made.commands.items():
            yield from _helps(inner, (*typed, word))
