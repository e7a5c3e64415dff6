"""Vectors of one embedding space asked for in another: which settings to change, or which command to run."""

from __future__ import annotations

import shlex

from knowledge.errors import BUNDLED_MODEL, LOCAL_PROVIDER, UNVERSIONED, SpaceMismatch
from knowledge.models import EmbeddingSpace


def mismatch(stored: EmbeddingSpace, asked: EmbeddingSpace) -> SpaceMismatch:
    """Return the error that a store is in one space, and the settings ask for another."""
    return SpaceMismatch(
        f"the store was embedded with {stored.model} ({stored.dims} dimensions, {stored.fingerprint}), the settings"
        f" ask for {asked.model} ({asked.dims} dimensions, {asked.fingerprint}): {settings_of(stored, asked)} to"
        f" go on with what is stored, or run `hardwon reembed --model {_as_set(asked)}` to change over"
    )


def settings_of(stored: EmbeddingSpace, asked: EmbeddingSpace) -> str:
    """Return which settings to change so that they ask for the stored space."""
    ours = stored.provider == LOCAL_PROVIDER
    told = f"set HARDWON_EMBEDDING_MODEL={_as_set(stored)}"
    if stored.provider != asked.provider:
        return f"{told} and {'unset ' if ours else ''}HARDWON_EMBEDDING_BASE_URL{'' if ours else ' to its endpoint'}"
    if ours or stored.model != asked.model:
        return told
    for name in ("dims", "revision", "query_prefix", "document_prefix"):
        value = getattr(stored, name)
        if value != getattr(asked, name):
            variable, none = f"HARDWON_EMBEDDING_{name.upper()}", value in {"", UNVERSIONED}
            told += f" and unset {variable}" if none else f" and {variable}={shlex.quote(str(value))}"
    return told


def _as_set(space: EmbeddingSpace) -> str:
    """Return how the settings name a space's model: one of a folder is called as that."""
    of_folder = space.provider == LOCAL_PROVIDER and space.model != BUNDLED_MODEL
    return f"/path/to/{space.model}" if of_folder else space.model
