"""The signature of an error: the same for the same failure in another run, another for another error."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.text.error_summary import error_signature

NAMES = st.text(string.ascii_lowercase, min_size=2, max_size=8)
FOLDERS = st.lists(NAMES, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names))
NUMBERS = st.integers(1, 99_999)

ERRORS = {
    "missing file": "FileNotFoundError: [Errno 2] No such file or directory: '{folder}/rates.yml'",
    "unreadable file": "PermissionError: [Errno 13] Permission denied: '{folder}/rates.yml'",
    "another file": "FileNotFoundError: [Errno 2] No such file or directory: '{folder}/prices.yml'",
    "database": 'psycopg2.OperationalError: server at "10.0.{byte}.7", port {port} failed: Connection refused',
    "timeout": "requests.exceptions.ReadTimeout: read timed out after {seconds}s for http://{host}:{port}/v1/orders",
    "key": "KeyError: 'total'",
    "another key": "KeyError: 'price'",
    "status": "HTTPError: status code 404 for order {number} in {seconds} ms",
    "another status": "HTTPError: status code 502 for order {number} in {seconds} ms",
    "type": "{folder}/cart.ts({number},{byte}): error TS2322: Type 'string' is not assignable to 'number'.",
    "another type": "{folder}/cart.ts({number},{byte}): error TS2345: Type 'string' is not assignable to 'number'.",
    "database code": "ORA-00942: table or view does not exist (session {number})",
    "memory": "Error: worker {uuid} exited with code 137",
    "crash": "Error: worker {uuid} exited with code 139",
    "pointer": "panic: runtime error: invalid memory address [signal SIGSEGV addr=0x{address:x} pc=0x{address:x}]",
}


@st.composite
def runs(draw: st.DrawFn) -> dict[str, object]:
    """Draw what differs between two runs of the same failure."""
    return {
        "folder": draw(FOLDERS),
        "host": draw(NAMES),
        "byte": draw(st.integers(1, 255)),
        "port": draw(st.integers(1024, 65_535)),
        "number": draw(NUMBERS),
        "seconds": f"{draw(st.floats(0.01, 99, allow_nan=False)):.2f}",
        "uuid": draw(st.uuids()),
        "address": draw(st.integers(2**20, 2**47)),
        "time": draw(st.datetimes()).isoformat(),
    }


def tell(error: str, run: dict[str, object], *, as_trace: bool) -> str:
    told = ERRORS[error].format(**run)
    if not as_trace:
        return told
    frame = f'  File "{run["folder"]}/shop/app.py", line {run["number"]}, in main\n    run(cart)'
    return f"{run['time']} INFO starting\nTraceback (most recent call last):\n{frame}\n{told}"


@pytest.mark.parametrize("error", ERRORS)
@given(one=runs(), other=runs(), as_trace=st.booleans())
def test_the_same_failure_in_another_run_has_the_same_signature(
    *, error: str, one: dict[str, object], other: dict[str, object], as_trace: bool
) -> None:
    signature = error_signature(tell(error, one, as_trace=as_trace))
    assert signature
    assert signature == error_signature(tell(error, other, as_trace=as_trace))


@given(run=runs(), as_trace=st.booleans())
def test_each_error_has_a_signature_of_its_own(*, run: dict[str, object], as_trace: bool) -> None:
    assert len({error_signature(tell(error, run, as_trace=as_trace)) for error in ERRORS}) == len(ERRORS)


def test_a_description_has_a_signature_only_where_it_names_an_error() -> None:
    named = "The cart shows no prices\nKeyError: 'total'"
    assert error_signature(None, named) == error_signature("KeyError: 'total'")
    for text in ("Convert the prices of the cart to euros", "It failed again, unexpectedly", "AssertionError", ""):
        assert error_signature(None, text) == ""


@given(st.text(), st.text())
def test_any_text_has_one(error: str, description: str) -> None:
    assert error_signature(error, description) == error_signature(error, description)
