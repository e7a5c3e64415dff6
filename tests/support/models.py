"""The bundled model, loaded once a process: reading and checking its 23 MB took most tests that use it half their time.

`tests/contract/test_local_embedder.py` loads files of its own.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from knowledge.adapters.embedding import local
from knowledge.adapters.embedding.local import LocalModel, bundled_model


def keep_model() -> None:
    """Have every embedder of this process share the weights of the bundled model; other files are read each time."""
    load: Any = vars(local)["_load"]
    kept = functools.cache(load)

    def load_once(model: LocalModel) -> Any:
        complete = None not in (sys.modules.get(name, load) for name in ("onnxruntime", "tokenizers"))
        return kept(model) if complete and model == bundled_model() else load(model)

    setattr(local, "_load", load_once)  # noqa: B010 - this process is the tests'
