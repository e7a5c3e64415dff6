"""What a long error says went wrong."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.text.error_summary import MAX_CHARS, gist
from tests.support.cases import over

STEPS = [
    f"2026-03-01T10:00:{n:02}Z INFO worker-{n}: page {chr(97 + n)} of the catalogue was rendered" for n in range(20)
]

ERRORS = {
    "a log": "2026-03-01T10:00:07Z ERROR pool: too many clients already",
    "an exception": "sqlalchemy.exc.OperationalError: too many clients already",
    "npm": "npm ERR! code ERESOLVE",
    "a compiler": "src/cart.c:10:3: error: 'price' undeclared",
    "Go": "panic: assignment to entry in nil map",
    "Java": "Caused by: java.net.ConnectException: Connection refused",
    "Rust": "error[E0382]: borrow of moved value: `cart`",
    "pytest": "E   assert 3 == 4",
    "other words": "the upload was refused, the bucket is read-only",
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("place", [0, 7, len(STEPS)])
def test_of_a_long_log_the_line_that_says_what_went_wrong_is_kept(name: str, place: int) -> None:
    log = "\n".join([*STEPS[:place], ERRORS[name], *STEPS[place:]])
    kept = gist(log)
    assert ERRORS[name].removeprefix("2026-03-01T10:00:07Z ") in kept.splitlines()
    assert len(kept) <= MAX_CHARS < len(log)


def test_of_a_stack_trace_the_way_there_is_left_out() -> None:
    frames = [
        line
        for n in range(12)
        for line in (f'  File "/srv/app/part{n}.py", line {n}, in call{n}', f"    return nothing{n}(told, {n})")
    ]
    kept = gist("\n".join(["Traceback (most recent call last):", *frames, "KeyError: 'sku'"]))
    assert kept.splitlines()[-2:] == ["return nothing11(told, 11)", "KeyError: 'sku'"]
    assert "part3.py" not in kept
    assert "nothing3" not in kept


def test_what_is_there_to_say_it_goes_before_what_speaks_of_it() -> None:
    speaking = [f"upload: retry {letter} of the failed upload, timeout is 30 s for this one" for letter in "abcdefgh"]
    kept = gist("\n".join([*speaking, "botocore.exceptions.ClientError: (403) AccessDenied", *speaking[::-1]]))
    assert "botocore.exceptions.ClientError: (403) AccessDenied" in kept
    assert speaking[0] in kept


AMBIENT = [
    "2026-03-12T10:01:02Z ERROR metrics: could not push to the gateway: connection refused",
    "2026-03-12T10:01:09Z ERROR flags: refresh timed out, using what was cached before",
    "2026-03-12T10:02:00Z ERROR audit: failed to rotate the file of yesterday, it is busy",
    "2026-03-12T10:02:01Z ERROR otel: the queue of the exporter is full, spans are dropped",
]


def test_errors_that_every_log_has_leave_room_for_the_last_one() -> None:
    """With the first lines only, all failures of a system had one gist."""
    assert "IntegrityError: duplicate key" in gist("\n".join([*AMBIENT, "IntegrityError: duplicate key"]))
    tries = [f"ERROR attempt {n} of 9: the bucket does not answer" for n in range(9)]
    assert "ERROR giving up: it is read-only" in gist("\n".join([*tries, *STEPS, "ERROR giving up: it is read-only"]))


NEGATIVE = "the price of the cart is negative"


@over(
    "line",
    [
        f"2026/03/12 10:00:00 [error] 31#31: *1 {NEGATIVE}",
        f"\x1b[91merror\x1b[0m: {NEGATIVE}",
        f"Warning  FailedScheduling  {NEGATIVE}",
        f"terminated with SIGSEGV, for {NEGATIVE}",
        f"src/cart.ts(3,7): error TS2322: {NEGATIVE}",
        f'{{"ts": "2026-03-12", "level": "error", "logger": "cart", "msg": "{NEGATIVE}"}}',
        f'{{"level":50,"time":1,"pid":7,"err":"{NEGATIVE}"}}',
    ],
)
def test_a_fault_is_known_in_the_ways_that_programs_tell_it(line: str) -> None:
    assert NEGATIVE in gist("\n".join([*STEPS[:9], line, *STEPS[9:]]))


def test_a_word_for_a_fault_in_a_path_or_of_none_says_nothing() -> None:
    noise = [
        '"GET /api/errors/summary HTTP/2.0" 200',
        "PASS src/errors/errors.test.ts",
        "0 errors, 0 failures",
        "errors: 0",
    ]
    kept = gist("\n".join([*noise, *STEPS, "the upload was refused"]))
    assert "the upload was refused" in kept
    assert all(line not in kept for line in noise)


def test_what_a_line_announces_is_kept_with_it() -> None:
    kept = gist("\n".join([*STEPS, "* What went wrong: it failed:", "A Kotlin class is there twice", *STEPS]))
    assert "A Kotlin class is there twice" in kept
    chained = ["FAILED", *(f"step {letter}" for letter in "abcdefgh"), "the last of them"]
    assert "step a" in gist("\n".join([*STEPS, *chained]))
    assert "step d" not in gist("\n".join([*STEPS, *chained]))


def test_a_line_that_recurs_is_kept_once_whatever_the_time() -> None:
    kept = gist("\n".join(f"2026-03-01T10:00:{n:02}Z ERROR pool: too many clients already" for n in range(30)))
    assert kept == "ERROR pool: too many clients already"


def test_of_one_long_line_is_kept_what_stands_around_what_went_wrong() -> None:
    told = '{"trace": "' + "a1 " * 300 + '", "message": "quota exceeded for region eu-west-1"}'
    assert "quota exceeded for region eu-west-1" in gist(told)
    assert gist("b " * 400).startswith("b b")


@given(st.text(max_size=2_000))
def test_a_gist_is_never_longer_and_a_gist_of_a_gist_is_itself(error: str) -> None:
    kept = gist(error)
    assert len(kept) <= MAX_CHARS
    assert gist(kept) == kept


@over("unit", ["a", "error ", "at a (", "ERROR x\n", "E  \n", "a.", "\n", 'File "a", line 1, in b\n'])
def test_no_error_takes_long(unit: str) -> None:
    begun = time.perf_counter()
    gist(unit * (64 * 1024 // len(unit)))
    assert time.perf_counter() - begun < 1.0
