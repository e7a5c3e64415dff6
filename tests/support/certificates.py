"""Whose certificates tests trust."""

from __future__ import annotations

import os
from pathlib import Path

NOBODY = Path(__file__).with_name("nobody.pem")
"""A certificate whose key was thrown away."""


def trust_nobody() -> None:
    """Trust no authority, here and in children: each HTTP client reads all of a machine's, which takes it 35 ms.

    No test speaks TLS but with certificates that it names itself. A Qdrant that is named may be one that does.
    """
    if not os.environ.get("HARDWON_TEST_QDRANT_URL", "").startswith("https:"):
        os.environ["SSL_CERT_FILE"] = str(NOBODY)
