"""An installation: how to get an extra of it, and whether it is made for the platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hardwon.installation import describe_install, install_command
from hardwon.programs import unsupported_platform
from tests.support.cases import over

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://git.example.org/team/hardwon.git"
INSTALLED: list[tuple[dict[str, Any], str]] = [
    ({}, "pip install 'hardwon[mcp]'"),
    ({"url": "file:///srv/hardwon", "dir_info": {}}, "pip install '/srv/hardwon[mcp]'"),
    ({"url": "file:///srv/my%20copy", "dir_info": {"editable": True}}, "pip install -e '/srv/my copy[mcp]'"),
    (
        {"url": "file:///tmp/hardwon-0.1.0-py3-none-any.whl", "archive_info": {}},
        "pip install 'hardwon[mcp] @ file:///tmp/hardwon-0.1.0-py3-none-any.whl'",
    ),
    (
        {"url": REPOSITORY, "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": "0" * 40}},
        f"pip install 'hardwon[mcp] @ git+{REPOSITORY}@v0.1.0'",
    ),
    (
        {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "a1b2"}, "subdirectory": "python"},
        f"pip install 'hardwon[mcp] @ git+{REPOSITORY}@a1b2#subdirectory=python'",
    ),
]
"""What `direct_url.json` tells of an installation, and the command that adds an extra."""


@over("case", INSTALLED)
def test_an_extra_is_had_from_where_the_product_was_got(case: tuple[dict[str, Any], str]) -> None:
    direct_url, command = case
    assert describe_install("mcp", direct_url) == command


def test_what_uv_installed_gets_an_extra_by_uv_with_the_packages_beside_it() -> None:
    told = describe_install("otel", {}, "uv pip", more="opentelemetry-exporter-otlp-proto-http")
    assert told == "uv pip install 'hardwon[otel]' opentelemetry-exporter-otlp-proto-http"


def test_the_command_of_this_checkout_names_the_checkout() -> None:
    assert f"{ROOT}[documents]" in install_command("documents")


@pytest.mark.parametrize(
    ("platform", "told"),
    [
        (("linux", "x86_64", "glibc 2.28"), None),
        (("linux", "aarch64", "glibc 2.41"), None),
        (("darwin", "arm64", None), None),
        (("linux", "x86_64", "glibc 2.17"), "this Linux has glibc 2.17"),
        (("linux", "x86_64", None), "another C library"),
        (("linux", "armv7l", "glibc 2.36"), "on linux armv7l it is not tested"),
        (("darwin", "x86_64", None), "on darwin x86_64 it is not tested"),
        (("freebsd14", "amd64", None), "on freebsd14 amd64 it is not tested"),
        (("win32", "", None), "not on Windows: use it in WSL 2"),
    ],
)
def test_another_platform_is_told_in_one_sentence(platform: tuple[str, str, str | None], told: str | None) -> None:
    sentence = unsupported_platform(*platform)
    assert (sentence is None) is (told is None)
    if told is not None:
        assert sentence is not None
        assert told in sentence
        assert sentence.startswith("hardwon runs on Linux with glibc 2.28")


def test_a_command_on_another_platform_begins_with_that_sentence() -> None:
    script = (
        "import os, sys; real = os.uname();"
        "os.uname = lambda: os.uname_result((*real[:4], 'riscv64'));"
        "sys.argv = ['hardwon', '--version'];"
        "from hardwon.programs import command_line; command_line()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.startswith("hardwon ")
    assert ran.stderr.startswith("warning: hardwon runs on Linux")
    assert "riscv64" in ran.stderr


def test_the_readme_promises_the_platforms_that_are_checked() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    sentence = unsupported_platform("win32", "", None)
    assert sentence is not None
    assert sentence.partition(", not on Windows")[0].removeprefix("hardwon runs") in readme
