"""Property tests have no deadline: on a busy machine it would measure the others."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
