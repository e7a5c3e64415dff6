"""The rules of the house that a program can check: size of folders and functions, names, docstrings, broad excepts."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.cases import each_case

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hardwon", "knowledge", "orchestrator", "jobs", "migrations")
MAX_MODULES = 12
MAX_REGISTRY_MODULES = 16
REGISTRIES = ("client", "ports", "routes", "commands", "importers", "models", "views", "operator_views")
"""Folders that hold one module for each thing of a kind; Alembic's versions only ever grow."""
APART = {
    "hardwon/programs.py": "a script, which starts programs",
    "knowledge/adapters/files/readers/formats.py": "loaded once the limits of its process are set",
    "knowledge/adapters/llm/client.py": "what it loads is loaded with its first use",
    "orchestrator/cli/support/logging.py": "loads nothing of a server",
    "knowledge/formats/notebooks.py": "a format of its own",
    "orchestrator/context/rendering.py": "the design's format, and nothing else",
    "orchestrator/hooks.py": "a name that programs import",
}
"""Small modules with one importer, and why they stand apart."""
SHARED_NAMES = {"__init__", "__main__", "service", "ports", "models", "access"}
MIN_SINGLE_IMPORTER_LINES = 80
MAX_FUNCTION_LINES = 60
MAX_PARTICIPLE_SHARE = 0.03
MAX_DOCUMENT_PATTERNS = 137
MAX_TEST_MODULES = 30
BROAD_EXCEPTS = {
    "hardwon/blocking.py": 2,
    "hardwon/context/builder.py": 2,
    "hardwon/context/deadline.py": 1,
    "hardwon/hooks.py": 2,
    "hardwon/integrations/openai_agents.py": 1,
    "hardwon/integrations/pydantic_ai.py": 1,
    "jobs/scheduler.py": 1,
    "jobs/table.py": 1,
    "knowledge/adapters/embedding/worker_pool.py": 1,
    "knowledge/adapters/files/git_repositories.py": 1,
    "knowledge/adapters/postgres/engine/connection.py": 3,
    "knowledge/adapters/postgres/engine/database.py": 2,
    "knowledge/adapters/postgres/engine/locks.py": 1,
    "knowledge/adapters/postgres/engine/pooler.py": 4,
    "knowledge/adapters/qdrant/edge_storage.py": 2,
    "knowledge/documents/ingestion/queue.py": 1,
    "knowledge/memory/checkpoint/leases.py": 1,
    "knowledge/memory/checkpoint/pipeline.py": 2,
    "knowledge/memory/checkpoint/service.py": 1,
    "knowledge/runtime/instrumentation.py": 1,
    "knowledge/wiring/backups.py": 1,
    "orchestrator/cli/files/capture_files.py": 1,
    "orchestrator/mcp/http.py": 2,
    "orchestrator/mcp/server.py": 1,
    "orchestrator/server/owner.py": 1,
}
"""Where everything is caught, and how often: loops that go on, clean-up that raises again, edges that degrade."""
QUESTION = re.compile(r"(What|Which|Whether|How|Where)\b")
IRREGULAR = frozenset(
    re.findall(
        r"\w+",
        """asked begun bound brought built bought caught chosen come cut done drawn driven fed felt forgotten found
        frozen given gone gotten grown handed heard held hidden kept known laid led left lent lost made
        meant met paid said seen sent shown sold sought spent spoken stood stolen stuck sworn taken taught
        thought thrown told torn understood untold unseen wanted won worn written""",
    )
)
NOUNS = frozenset(
    re.findall(
        r"\w+",
        """binding bring building calibration chunking embed embedding encoding exceed feed finding hashing heading
        indexing learning listing logging mapping meaning need opening padding parsing ping pricing proceed
        pruning ranking reembed rendering routing sampling scoring seed setting sibling spacing speed
        spelling stemming streaming string succeed thing timing tokenizing tracing warning wording""",
    )
)
"""First words that end like a participle and are none, or are the field's noun."""


@cache
def modules() -> dict[str, ast.Module]:
    """Return the parsed production modules by their path."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


@cache
def lines_of(path: str) -> int:
    return len((ROOT / path).read_text().splitlines())


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield path, node


def folders(paths: Iterator[str]) -> Counter[str]:
    return Counter(str(Path(path).parent) for path in paths if not path.endswith("__init__.py"))


def is_registry(folder: str) -> bool:
    return Path(folder).name in REGISTRIES


def starts_with_participle(name: str) -> bool:
    if name.startswith("__"):
        return False
    bare = name.strip("_")
    first = bare.split("_")[0].lower()
    if first in NOUNS or first.removesuffix("s") in NOUNS:
        return False
    if first in IRREGULAR or bare in IRREGULAR:
        return True
    return (len(first) > 4 and first.endswith("ed")) or (len(first) > 5 and first.endswith("ing"))


def importers() -> dict[str, set[str]]:
    """Return for each module the production modules that import it, packages' `__init__` included."""
    by_name = {path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in modules()}
    found: dict[str, set[str]] = {path: set() for path in modules()}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in by_name:
                names = [node.value]  # loaded when it is first asked for
            for name in names:
                if name in by_name:
                    found[by_name[name]].add(path)
    return found


def test_a_folder_holds_few_modules() -> None:
    counts = folders(iter(modules()))
    crowded = {
        folder: count
        for folder, count in counts.items()
        if count > (MAX_REGISTRY_MODULES if is_registry(folder) else MAX_MODULES) and folder != "migrations/versions"
    }
    assert crowded == {}


def test_a_folder_of_tests_holds_at_most_thirty_modules() -> None:
    counts = folders(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py"))
    assert {folder: count for folder, count in counts.items() if count > MAX_TEST_MODULES} == {}


def test_function_names_begin_with_a_verb_or_are_nouns() -> None:
    names = [(path, node.name) for path, node in functions()]
    participles = [f"{path}: {name}" for path, name in names if starts_with_participle(name)]
    assert len(participles) <= MAX_PARTICIPLE_SHARE * len(names), "\n".join(participles)


def test_no_docstring_begins_with_a_question_word() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bad = [
        f"{path}: {text.splitlines()[0]}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and QUESTION.match(text)
    ]
    assert bad == []


def test_no_two_modules_of_a_room_have_one_name() -> None:
    """Registries name the same things by nature, such as a store and its values."""
    rooms: dict[str, Counter[str]] = {}
    for path in modules():
        file = Path(path)
        if file.stem not in SHARED_NAMES and not is_registry(str(file.parent)):
            for room in (file.parent, file.parent.parent):
                rooms.setdefault(str(room), Counter())[file.stem] += 1
    twice = {room: [name for name, count in names.items() if count > 1] for room, names in rooms.items() if room != "."}
    assert {room: names for room, names in twice.items() if names} == {}


def test_a_small_module_has_more_than_one_importer() -> None:
    lonely = [
        f"{path} ({lines_of(path)} lines, imported by {', '.join(users)})"
        for path, users in importers().items()
        if len(users) == 1 and lines_of(path) < MIN_SINGLE_IMPORTER_LINES
        if path not in APART and not is_registry(str(Path(path).parent))
        if not path.endswith(("__init__.py", "__main__.py"))
    ]
    assert lonely == []


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{path}:{node.lineno} {node.name} ({node.end_lineno - node.lineno + 1})"
        for path, node in functions()
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_everything_is_caught_only_where_this_list_says_so() -> None:
    caught: Counter[str] = Counter()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {""}
                if names & {"", "Exception", "BaseException"}:
                    caught[path] += 1
    assert dict(caught) == BROAD_EXCEPTS


def test_documents_are_read_with_few_regular_expressions() -> None:
    compiled = sum(
        (ROOT / path).read_text().count("re.compile(")
        for path in modules()
        if path.startswith(("knowledge/documents/", "knowledge/formats/"))
    )
    assert compiled <= MAX_DOCUMENT_PATTERNS


@each_case
def test_the_check_of_names_knows_a_participle(name: str, is_one: bool) -> None:  # noqa: FBT001
    assert starts_with_participle(name) is is_one
