"""Codes of errors: of one kind, another code is another error."""

from __future__ import annotations

from knowledge.text.error_summary import error_codes, is_different_error
from tests.support.cases import each_case, over

TOLD: tuple[tuple[str, dict[str, set[str]]], ...] = (
    ("TS2322: Type 'a' is not assignable to type 'b'", {"TS": {"2322"}}),
    ("src/a.ts(3,5): error TS2304: Cannot find name 'process'.", {"TS": {"2304"}}),
    ("src/a.ts:3:5 - error TS2304: Cannot find name 'process'.", {"TS": {"2304"}}),
    ("error[E0382]: borrow of moved value: `config`", {"E": {"0382"}}),
    ("the build failed\nORA-00942: table or view does not exist\nORA-06512: at line 1", {"ORA-": {"00942", "06512"}}),
    ("app/models.py:12:5: F401 'os' imported but unused", {"F": {"401"}}),
    ("Program.cs(5,1): error CS1002: ; expected", {"CS": {"1002"}}),
    ("Prisma failed (code P2002)", {"P": {"2002"}}),
    ("SHOP-1432: the total is wrong\nSPARK-12345 as well", {}),
    ("see RFC7231 and ISO8601; it runs on an RTX3090", {}),
    ("the H100 is busy, error 500, HTTP 404, exit code 137", {}),
    ("sha E0382abc, XTS2304, TS23", {}),
    ("", {}),
)


@over("text, codes", TOLD)
def test_a_code_is_read_where_an_error_stands(text: str, codes: dict[str, set[str]]) -> None:
    assert error_codes(text) == codes


@each_case
def test_of_the_same_kind_another_code_is_another_error(asked: str, told: str, *, another: bool) -> None:
    assert is_different_error(error_codes(asked), error_codes(told)) is another


def test_of_a_long_text_the_codes_at_its_ends_are_read() -> None:
    log = "TS2304: no name\n" + "a line of a log\n" * 100_000 + "TS2322: no type"
    assert error_codes(log) == {"TS": {"2304", "2322"}}
