"""The pepper of keys, and their scopes."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from hardwon.errors import AccessDenied, HardwonError, InvalidSetting, StorageUnavailable
from hardwon.models.access import Scope
from knowledge.access.keys import FILE, load_pepper
from knowledge.access.permissions import Reach, operations
from knowledge.access.principals import ANYONE, OWNER, Principal, Trust
from tests.support.cases import over

# the pepper


def test_a_pepper_is_made_once_for_its_owner_alone(home: Path) -> None:
    first = load_pepper(home, None)
    assert load_pepper(home, None) == first
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [FILE]
    (home / FILE).chmod(0o640)
    with pytest.raises(StorageUnavailable, match="chmod 600"):
        load_pepper(home, None)


@pytest.mark.parametrize("content", ["", "short"])
def test_a_damaged_pepper_is_not_taken(home: Path, content: str) -> None:
    (home / FILE).write_text(content)
    (home / FILE).chmod(0o600)
    with pytest.raises(StorageUnavailable, match="damaged"):
        load_pepper(home, None)


def test_a_pepper_that_is_told_leaves_no_file(home: Path) -> None:
    assert load_pepper(home, SecretStr("x" * 32)).value == b"x" * 32
    assert load_pepper(home, SecretStr("x" * 32 + "\n")).value == b"x" * 32, "as a file of a secret ends"
    assert list(home.iterdir()) == []
    with pytest.raises(InvalidSetting, match="HARDWON_KEY_PEPPER"):
        load_pepper(home, SecretStr("x" * 31))


# scopes


def of(*scopes: Scope, workspace: str | None = "ours") -> Principal:
    return Principal(trust=Trust.KEY, scopes=frozenset(scopes), workspace=workspace, key_id="0" * 12)


def test_d49_what_an_agents_key_may_do_is_to_capture() -> None:
    """D49."""
    allowed = {name for name in operations() if of(Scope.CAPTURE).may(name)}
    assert allowed == {
        name for name in operations() if name.startswith(("capture.capture", "capture.resolve", "runs."))
    }


def test_admin_includes_the_others_and_nobody_else_deletes_or_makes_keys() -> None:
    assert all(of(Scope.ADMIN, workspace=None).may(name) for name in operations())
    assert all(OWNER.may(name) for name in operations())
    assert {name for name in operations() if not ANYONE.may(name)} == {
        "keys.count_unusable", "keys.create", "keys.list", "keys.rotate", "keys.revoke"
    }  # fmt: skip
    for name in operations():
        if name.startswith(("keys.", "pruning.", "archives.", "store_upkeep.")) or "delete" in name:
            assert not of(Scope.CAPTURE, Scope.QUERY, Scope.REVIEW, workspace=None).may(name)


def test_a_key_of_one_workspace_does_nothing_to_the_whole_store_and_enters_no_other() -> None:
    for name, needed in operations().items():
        assert of(Scope.ADMIN).may(name) is (needed.reach is Reach.WORKSPACE)
    with pytest.raises(AccessDenied, match="a key of all workspaces"):
        of(Scope.ADMIN).require("workspaces")
    of(Scope.ADMIN).check_workspace("ours")
    of(Scope.ADMIN, workspace=None).check_workspace("theirs")
    with pytest.raises(AccessDenied):
        of(Scope.ADMIN).check_workspace("theirs")


@over("unknown", ["", "capture", "capture.", "keys.any", "capture.stores", "queries.__class__"])
def test_what_is_in_no_table_is_nobodys(unknown: str) -> None:
    require: list[Callable[[str], None]] = [OWNER.require, of(Scope.ADMIN, workspace=None).require]
    for each in require:
        with pytest.raises(HardwonError):
            each(unknown)
