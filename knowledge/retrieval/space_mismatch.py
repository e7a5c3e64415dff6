"""The error for a store of another embedding space: settings to change, or the command to run."""

from __future__ import annotations

import shlex

from hardwon.errors import BUNDLED_MODEL, LOCAL_PROVIDER, UNVERSIONED, SpaceMismatch
from knowledge.models import EmbeddingSpace


def space_mismatch(stored: EmbeddingSpace, asked: EmbeddingSpace) -> SpaceMismatch:
    """Return the error for a store whose space is not the one that the settings ask for."""
    return SpaceMismatch(
        f"the store was embedded with {stored.model} ({stored.dims} dimensions, {stored.fingerprint}), the settings"
        f" ask for {asked.model} ({asked.dims} dimensions, {asked.fingerprint}): {suggest_settings(stored, asked)} to"
        f" go on with what is stored, or run `hardwon reembed --model {_as_set(asked)}` to change over"
    )


def suggest_settings(stored: EmbeddingSpace, asked: EmbeddingSpace) -> str:
    """Return the settings to change so that they ask for the stored space."""
    ours = stored.provider == LOCAL_PROVIDER
    advice = f"set HARDWON_EMBEDDING_MODEL={_as_set(stored)}"
    if stored.provider != asked.provider:
        return f"{advice} and {'unset ' if ours else ''}HARDWON_EMBEDDING_BASE_URL{'' if ours else ' to its endpoint'}"
    if ours or stored.model != asked.model:
        return advice
    for name in ("dims", "revision", "query_prefix", "document_prefix"):
        value = getattr(stored, name)
        if value != getattr(asked, name):
            variable, none = f"HARDWON_EMBEDDING_{name.upper()}", value in {"", UNVERSIONED}
            advice += f" and unset {variable}" if none else f" and {variable}={shlex.quote(str(value))}"
    return advice


def _as_set(space: EmbeddingSpace) -> str:
    """Return a space's model as the settings name it: a local model by its folder."""
    of_folder = space.provider == LOCAL_PROVIDER and space.model != BUNDLED_MODEL
    return f"/path/to/{space.model}" if of_folder else space.model
