"""The error tree, under the name that programs of the service import; it is drawn in `hardwon.errors`."""

from __future__ import annotations

from hardwon.errors import *  # noqa: F403 - every error
