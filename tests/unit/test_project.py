"""What stands around the code: the commands, the image and the services."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import benchmarks.__main__
from tests.support.cases import each_case, over

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {"api", "postgres", "qdrant", "qdrant-2", "qdrant-3", "scheduler"}


def compose() -> dict[str, Any]:
    """Return the services of compose.yaml."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return services


def commands() -> set[str]:
    """Return the commands that run.py knows."""
    return set(runpy.run_path(str(ROOT / "run.py"))["COMMANDS"])


def test_make_and_run_know_the_same_commands() -> None:
    listed = re.search(r"(?m)^COMMANDS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert listed is not None
    assert set(listed[1].split()) == commands() | {"help"}


PACKAGES = ("hardwon", "knowledge", "orchestrator", "jobs", "migrations")


def test_every_folder_says_in_a_sentence_what_it_holds() -> None:
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    silent = [
        str(folder.relative_to(ROOT))
        for folder in folders
        if not (folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert silent == []


def test_every_path_on_the_map_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:hardwon|knowledge|orchestrator|jobs|migrations)/[\w/]*(?:\.py)?", text)
    named += [
        f"knowledge/{name}"
        for name in re.findall(r"`((?:memory|documents|text|retrieval|settings)/[\w/]+(?:\.py)?)`", text)
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_help_lists_every_command_and_installs_nothing(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, ROOT / "run.py"],
        env={"VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert {line.split()[0] for line in shown.stdout.splitlines()[2:]} == commands()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_a_usage_error_in_one_sentence() -> None:
    refused = subprocess.run([sys.executable, ROOT / "run.py", "tset"], capture_output=True, text=True, timeout=30)  # noqa: PLW1510
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1
    assert "'tset'" in refused.stderr


def test_a_folder_that_is_no_environment_of_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    refused = subprocess.run(  # noqa: PLW1510
        [sys.executable, ROOT / "run.py", "ready"],
        env={"VENV": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert refused.returncode == 1
    assert str(tmp_path) in refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]


def test_an_older_python_can_read_run_far_enough_to_say_that_it_is_too_old() -> None:
    ast.parse((ROOT / "run.py").read_text(encoding="utf-8"), feature_version=(3, 6))


@each_case
def test_tests_that_take_seconds_are_left_out_unless_some_are_chosen(arguments: str, *, all_of_them: bool) -> None:
    run = runpy.run_path(str(ROOT / "run.py"))
    assert run["chosen"](arguments.split()) is all_of_them


def test_compose_has_its_services_with_health_checks_restarts_and_limits() -> None:
    services = compose()
    assert set(services) == SERVICES
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped", name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name


def test_every_image_is_pinned_to_an_exact_version() -> None:
    images = [service["image"] for service in compose().values()]
    images += re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert len(images) >= len(SERVICES) + 1
    for image in images:
        assert re.search(r":v?\d+\.\d+(\.\d+)?(-[a-z]+)*$", image), image


def test_services_wait_until_what_they_need_is_healthy() -> None:
    services = compose()
    for name in ("api", "scheduler"):
        needs = services[name]["depends_on"]
        assert {"postgres", "qdrant"} <= set(needs), name
        assert {each["condition"] for each in needs.values()} == {"service_healthy"}, name


def test_only_the_api_is_published_and_only_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in compose().items() if "ports" in service}
    assert set(published) == {"api"}
    assert all(port.startswith("127.0.0.1:") for port in published["api"])


@over("secret", ["POSTGRES_PASSWORD", "QDRANT__SERVICE__API_KEY", "HARDWON_API_KEY", "HARDWON_KEY_PEPPER"])
def test_compose_has_no_secret_of_its_own_and_says_when_one_is_missing(secret: str) -> None:
    values = [service["environment"][secret] for service in compose().values() if secret in service["environment"]]
    assert values
    for value in values:
        assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), value


@over("name", ["api", "scheduler"])
def test_a_setting_in_the_env_file_reaches_what_runs_by_it(name: str) -> None:
    """Compose reads .env to fill in its own file only: a longer retention was set there, and nobody heard of it."""
    service = compose()[name]
    assert service["env_file"] == [{"path": ".env", "required": False}]
    assert all(value.startswith(("${", "http://qdrant:", "postgresql://")) for value in service["environment"].values())


def test_the_image_runs_as_an_ordinary_user_with_a_health_check() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last_stage = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    users = [line.split()[1] for line in last_stage if line.startswith("USER ")]
    assert users[-1:] == ["hardwon"]
    assert any(line.startswith("HEALTHCHECK ") for line in last_stage)


def test_the_image_holds_every_package_with_the_extras_of_a_server() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    kept = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert f"COPY {package} {package}\n" in dockerfile
        assert f"!{package}/" in kept
    for file in re.findall(r"\S+", re.findall(r"(?m)^COPY (pyproject\.toml .*) \./$", dockerfile)[0]):
        assert f"!{file}" in kept
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", dockerfile)
    assert extras.split(",") == ["documents", "mcp", "otel"]
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_the_image_installs_by_hash_only() -> None:
    """Each pip or uv that fetches anything is bound to the lock."""
    steps = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    fetching = re.findall(r"pip install[^&\n]*", steps)
    assert fetching
    for step in fetching:
        assert re.search(r"--require-hashes .*-r requirements\.lock|--constraint requirements\.lock", step), step


@pytest.mark.long
def test_two_runs_of_the_tests_at_once_take_no_port_of_each_other() -> None:
    script = "from tests.support.processes import free_port; print(free_port(), flush=True); input()"
    pipe, started = subprocess.PIPE, [sys.executable, "-c", script]
    with (
        subprocess.Popen(started, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as one,
        subprocess.Popen(started, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as other,
    ):
        assert one.stdout is not None
        assert other.stdout is not None
        assert one.stdout.readline() != other.stdout.readline()
        for each in (one, other):
            each.communicate("\n")


@pytest.mark.parametrize("told", ["0", "-3", "many", ""])
def test_a_measure_of_nothing_is_a_usage_error_in_one_sentence(told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmarks.__main__.main(["--part", "redaction", "--patterns", told])
    assert ended.value.code == 2
    assert f"argument --patterns: {'must be 1 or more' if told in {'0', '-3'} else 'invalid number'}" in (
        capsys.readouterr().err
    )
