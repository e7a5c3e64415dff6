"""What is another one each time that the same thing happens."""

from __future__ import annotations

import pytest

from knowledge.text.volatile import mask_volatile


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-20T03:12:44.120Z ERROR sync: 502", "2026-11-21T13:09:01.998Z ERROR sync: 502"),
        ("2026-11-20 03:12:44,120 sync", "2025-01-01 00:00:00 sync"),
        ("Nov 20 03:12:44 db1 sync", "Dec  1 13:09:01 db1 sync"),
        ("[20/Nov/2026:03:12:44 +0000] GET /", "[21/Nov/2026:13:09:01 +0100] GET /"),
        ("at 03:12:44 it stopped", "at 13:09:01.5 it stopped"),
        (
            "tenant 3f2b8c1e-1111-4a4a-9c9c-0123456789ab is empty",
            "tenant 9A9A9A9A-2222-4b4b-8d8d-ba9876543210 is empty",
        ),
        ("<Cart object at 0x7f3a2b1c4d50>", "<Cart object at 0x55d0c8f01a20>"),
        ("fault addr=0x18000 pc=0x47b2c4", "fault addr=0x19000 pc=0x47b2c9"),
        ("failed at commit 8f3c2aa91", "failed at commit 0b7de41c50b7de41c50b7de41c50b7de41c5aaaa"),
        ("cannot write '/tmp/tmpab12cd/a.webp'", "cannot write '/tmp/tmpzz98yx/a.webp'"),
        ("cannot open /tmp/TestCart123456/001", "cannot open /tmp/TestCart654321/001"),
        ("no answer within 30.012 s (12.4ms)", "no answer within 30.047 s (9.25ms)"),
        ("process 4711 died, pid=12, thread-3, job #88", "process 12 died, pid=4711, thread-4, job #9"),
        ("/proc/4711/maps of connection id 5", "/proc/12/maps of connection id 77"),
    ],
)
def test_moments_ids_and_addresses_are_passing(one: str, other: str) -> None:
    assert one != other
    assert mask_volatile(one) == mask_volatile(other)


@pytest.mark.parametrize(
    "text",
    [
        "pydantic 2.7 and 20.10.17, v3, api-version=2024-06-01, go v0.0.0-20240101120000-abcdef123456",
        "10.0.0.7:8554 and port 8080, connection 10.0.0.7:8080, 00:1a:2b:3c:44:55, 11:22:33:44:55:66",
        "exit code 137, exited with 3, Error 111, HTTP 502, [Errno 13], E501, HADOOP-18613, #123",
        "0x80070005, 0xC0000005, 0x1F, 8007000e, 0xffffffff80070005",
        "a timeout of 30 s, 1.5 s and 400 ms, 512m, time=01:00:00",
        "deadbeef, facade, 1234567, node-7, app-7d4b9c6f5-x2x4z, /tmp/app.sock, /tmp/python3.11",
    ],
)
def test_what_says_what_happened_is_not(text: str) -> None:
    assert mask_volatile(text) == text


def test_numbers_of_two_kinds_are_not_the_same() -> None:
    assert mask_volatile("pid 12 is gone") != mask_volatile("job 12 is gone")
