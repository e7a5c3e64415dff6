"""T28: what is installed is what was locked, by hash; models are data, never programs."""

from __future__ import annotations

import ast
import itertools
import json
import pickletools
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from knowledge.adapters.embedding.local import bundled_model
from tests.support.cases import over

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ ;\\]+)(?: ; [^\\]+)?(?: \\)?$")
LOADERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch"}
"""What turns a file into a program that runs."""
PICKLES = {".pkl", ".pickle", ".pt", ".pth", ".joblib", ".ckpt", ".mar", ".h5", ".keras"}


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Yield each requirement of the lock with the lines that belong to it."""
    begun: list[str] = []
    for line in LOCK.splitlines():
        if line and not line.startswith((" ", "#")):
            if begun:
                yield begun[0], begun[1:]
            begun = [line]
        elif begun:
            begun.append(line)
    yield begun[0], begun[1:]


def test_t28_every_requirement_of_the_lock_is_exact_and_has_its_hashes() -> None:
    count = 0
    for head, rest in blocks():
        assert PINNED.fullmatch(head), head
        assert any(re.search(r"--hash=sha256:[0-9a-f]{64}\b", line) for line in rest), head
        count += 1
    assert count > 50
    for foreign in ("http:", "https:", "git+", "file:", "-e ", "--index-url", "--extra-index-url", "--trusted-host"):
        assert foreign not in LOCK, foreign


def test_t28_every_dependency_is_in_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    asked = [Requirement(each).name for each in itertools.chain(project["dependencies"], *extras)]
    assert {canonicalize_name(name) for name in asked} - {head.partition("==")[0] for head, _ in blocks()} == set()


def test_t28_the_environment_holds_nothing_in_another_version_than_the_lock_says() -> None:
    locked: dict[str, set[str]] = {}  # another version for another Python
    for head, _ in blocks():
        found = PINNED.fullmatch(head)
        assert found
        locked.setdefault(found["name"], set()).add(found["version"])
    script = (
        "import importlib.metadata as m, json, re;"
        "print(json.dumps({re.sub('[-_.]+', '-', d.name).lower(): d.version for d in m.distributions()}))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    installed = json.loads(told)
    both = locked.keys() & installed.keys()
    assert {name: installed[name] for name in both if installed[name] not in locked[name]} == {}


@pytest.mark.long
@over("package", ["knowledge", "orchestrator", "jobs", "migrations"])
def test_t28_nothing_of_ours_loads_a_pickle(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").partition(".")[0]]
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                names = ["pickle"] if not (isinstance(node.value, ast.Constant) and node.value.value is False) else []
            assert not LOADERS & set(names), f"{path}:{getattr(node, 'lineno', 0)}"


def test_t28_no_file_of_a_bundled_model_is_a_pickle() -> None:
    files = [path for folder in _model_folders() for path in folder.rglob("*") if path.is_file()]
    models = [path for path in files if path.suffix in {".onnx", ".safetensors"}]
    assert models, "the bundled model is not where it was"
    for path in files:
        assert path.suffix not in PICKLES, path
        assert not _is_pickle(path), path


def test_the_look_for_pickles_finds_one(tmp_path: Path) -> None:
    for protocol in range(6):
        path = tmp_path / f"weights-{protocol}.bin"
        script = f"import pickle, sys; sys.stdout.buffer.write(pickle.dumps({{'weights': [0.5]}}, {protocol}))"
        path.write_bytes(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
        assert _is_pickle(path), protocol


def _model_folders() -> Iterator[Path]:
    yield bundled_model().weights.parent
    yield bundled_model().tokenizer.parent


def _is_pickle(path: Path) -> bool:
    """Return whether a file reads as a pickle to its end: a program for Python's unpickler."""
    if path.suffix in {".py", ".pyc", ".txt", ".json", ".md"} or path.stat().st_size == 0:
        return False
    try:
        with path.open("rb") as file:
            for _ in pickletools.genops(file):
                pass
    except Exception:  # noqa: BLE001 - whatever it is, it is none
        return False
    return True


def test_a_wheel_holds_the_tokenizer_whose_it_is_the_schema_and_the_examples(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        told = packed.read("knowledge/adapters/embedding/minilm/tokenizer.json")
    assert told == bundled_model().tokenizer.read_bytes()
    assert [
        name for name in names if name.endswith(".dist-info/licenses/knowledge/adapters/embedding/minilm/NOTICE")
    ], names
    assert {"migrations/versions/0026_baseline.sql", "orchestrator/http/openapi/examples.json"} <= set(names)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarfile.TarFile]:
    """The archive of the source, built in a copy of the checkout that holds files of its owner's besides."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in TRACKED:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "as tracked"]):
        subprocess.run([*git, *command], cwd=copy, check=True, capture_output=True)
    for name in ("notes.txt", "knowledge/notes.py", "docs/my notes [1].md", "#1", "!important"):
        (copy / name).write_text("a key: hw_0123")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(copy / "dist")]
    subprocess.run(build, cwd=copy, check=True, capture_output=True, timeout=120)
    (wheel,) = (copy / "dist").glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "notes" in name]
    (archive,) = (copy / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        yield opened


LISTING = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
TRACKED = [name for name in LISTING.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.long
@pytest.mark.skipif(not TRACKED, reason="this is no checkout: git says which files belong to it")
def test_the_archive_of_the_source_holds_the_tracked_files_and_no_others(sdist: tarfile.TarFile) -> None:
    held = {name.partition("/")[2] for name in sdist.getnames()}
    assert held - set(TRACKED) == {"PKG-INFO"}
    assert set(TRACKED) - held == set()


@pytest.mark.skipif(not TRACKED, reason="this is no checkout: git says which files belong to it")
def test_no_link_on_the_page_of_an_index_leads_to_a_file_of_the_checkout(sdist: tarfile.TarFile) -> None:
    (name,) = (each for each in sdist.getnames() if each.endswith("/PKG-INFO"))
    file = sdist.extractfile(name)
    assert file is not None
    page = file.read().decode()
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert "# hardwon" in page
    assert "docs/settings.md" in page, "the text of a link stays"
