"""Token buckets: how often somebody may do something, for many of them in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_KEPT = 10_000


@dataclass(slots=True, kw_only=True)
class Rates:
    """A bucket for each name: `per_second` at length, `burst` at once. Who was not seen for longest is forgotten."""

    per_second: float
    burst: float
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, name: str) -> float:
        """Take a token; return 0, or in how many seconds there is one."""
        now = self.seconds()
        left, seen = self._left.get(name, (self.burst, now))
        left = min(self.burst, left + (now - seen) * self.per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self.per_second
        self._left[name] = (left if wait else left - 1, now)
        self._left.move_to_end(name)
        if len(self._left) > _MOST_KEPT:
            self._left.popitem(last=False)
        return wait
