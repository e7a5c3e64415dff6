"""`make audit`: what could not be looked up is never an all-clear."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cases import over
from tests.vulnerabilities import FOUND, UNKNOWN, judge

CLEAN: dict[str, Any] = {"name": "alembic", "version": "1.20.1", "vulns": []}
BAD = {"name": "jinja2", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "description": "x"}]}
SKIPPED = {"name": "uv", "skip_reason": "Dependency not found on PyPI and could not be audited: uv (0.13.9)"}


def told(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_only_when_every_package_was_looked_up_and_none_is_vulnerable_is_it_well() -> None:
    assert judge(told(CLEAN, CLEAN)) == (0, "2 packages, no known vulnerability")


@over("packages", [(BAD,), (CLEAN, BAD), (SKIPPED, BAD)])
def test_a_known_vulnerability_is_named_with_what_mends_it(packages: tuple[object, ...]) -> None:
    code, says = judge(told(*packages))
    assert code == FOUND
    assert "jinja2 2.0: PYSEC-1, mended in 2.1" in says


def test_t28_what_could_not_be_looked_up_has_an_exit_code_of_its_own_and_says_so() -> None:
    code, says = judge(told(CLEAN, SKIPPED))
    assert code == UNKNOWN
    assert says.startswith("NOT LOOKED UP: 1 of 2 packages, such as uv")
    for nothing in (judge("", "...\nConnectionError: no route to host\n"), judge("[]"), judge(told())):
        assert nothing[0] == UNKNOWN
        assert nothing[1].startswith("NOT LOOKED UP")
    assert "no route to host" in judge("", "...\nConnectionError: no route to host\n")[1]
