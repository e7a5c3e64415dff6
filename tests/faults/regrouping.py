"""Joins and splits among all else that happens to a store, some of it at once, some of it killed (G23).

`python -m tests.faults.regrouping --operations 5000 --seed N`. Which entries there are is compared with the model of
the soak; who belongs together is what persons change here: what the entries in Postgres say is worked out anew.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

import sqlalchemy as sa
import structlog

from hardwon.errors import Conflict, InvalidInput, NotFound
from knowledge.adapters.postgres.memory_tables import knowledge_staging, patterns
from knowledge.models import EntryId, PatternId
from knowledge.wiring.open import Knowledge
from tests.faults.at_once import AtOnce
from tests.faults.model import Diverged
from tests.faults.soak import Soak, walk
from tests.faults.telling import REMEMBERED
from tests.faults.truth import examine

_E = knowledge_staging.c
_NEVER = timedelta(days=30_000)
_HAPPENING = ("join", "split", "join", "split", "checkpoint", "rebuild", "reembed", "repair", "outcome")
"""What goes on at once."""


@dataclass
class Regrouping(Soak):
    """A walk over one store in which persons join and split patterns."""

    chances: ClassVar[Mapping[str, float]] = {
        "capture": 40, "resolve": 5, "checkpoint": 8, "end_project": 1, "delete": 6, "prune": 1.5,
        "join": 8, "split": 6, "hand_out": 5, "outcome": 5, "together": 2, "reopen": 0.2, "kill": 0.3,
    }  # fmt: skip

    async def _join(self, knowledge: Knowledge) -> None:
        query = sa.select(patterns.c.id, patterns.c.entry_type).where(patterns.c.success_count > 0)
        async with knowledge.engine.connect() as connection:
            live = (await connection.execute(query.order_by(patterns.c.match_key))).all()
        keep = self.rng.choice(live) if live else None
        others = [each for each in live if keep and each.entry_type == keep.entry_type and each.id != keep.id]
        if keep and others:
            with suppress(NotFound):  # gone, or joined to another one, meanwhile
                await knowledge.grouping.join(PatternId(keep.id), PatternId(self.rng.choice(others).id))

    async def _split(self, knowledge: Knowledge) -> None:
        situation = sa.func.coalesce(_E.failure_description, _E.proposal)
        embedded = sa.select(_E.pattern_id).where(_E.embedded).group_by(_E.pattern_id)
        mixed = embedded.having(sa.func.count(sa.distinct(situation)) > 1)
        query = sa.select(_E.id).where(_E.embedded, _E.pattern_id.in_(mixed)).order_by(_E.content_hash, _E.id)
        async with knowledge.engine.connect() as connection:
            entries = (await connection.execute(query)).scalars().all()
        if entries:
            with suppress(NotFound, InvalidInput):  # it is the only one left there meanwhile
                await knowledge.grouping.split([EntryId(self.rng.choice(entries))])

    async def _hand_out(self, knowledge: Knowledge) -> None:
        context, _ = await self._handed_out(knowledge)
        given = [(context.context_id, each.pattern_id) for each in context.patterns]
        self.given = [*self.given, *given][-REMEMBERED:]

    async def _outcome(self, knowledge: Knowledge) -> None:
        if self.given:
            context_id, pattern_id = self.rng.choice(self.given)
            with suppress(NotFound, InvalidInput):  # it went, or what it was joined to
                await knowledge.outcomes.record_outcome(context_id, pattern_id, worked=self.rng.random() < 0.6)

    async def _together(self, knowledge: Knowledge) -> None:
        doing = self.rng.choices(_HAPPENING, k=4)
        doing = [name for at, name in enumerate(doing) if name != "reembed" or "reembed" not in doing[:at]]
        work = AtOnce(knowledge=knowledge, rng=self.rng, works=doing, to_model=self._other_model)
        own = {"join": self._join, "split": self._split, "outcome": self._outcome}
        came_of_it = await asyncio.gather(
            *(own[name](knowledge) if name in own else getattr(work, name)() for name in doing), return_exceptions=True
        )
        if "reembed" in doing:
            self.embedding_model = self._other_model
        if "checkpoint" in doing:
            self.model.embed(self.clock.now())
        for error in came_of_it:
            # two rebuilds at once leave the rest of one to the other
            if error is not None and not isinstance(error, Conflict):
                raise Diverged(f"{doing}: {type(error).__name__}: {error}") from error

    async def _compare(self, knowledge: Knowledge, *, after: str = "") -> None:
        stats = await knowledge.stats()
        self._must(
            dict(stats.entries) == dict(self.model.statuses()), f"{after}: {stats.entries} != {self.model.statuses()}"
        )
        await knowledge.checkpoints.sweep(staged_for=_NEVER)  # what has room in its pattern by now
        truth = await examine(knowledge, set(), deleted=self.deleted)
        waiting = ("is still staged", "points for")
        found = replace(truth, lost=tuple(said for said in truth.lost if not any(each in said for each in waiting)))
        self._must(found.sound, f"{after}: {found}")
        lonely = [said for said in truth.lost if " has 0 points for" in said]
        self._must(not lonely, f"{after}: found by nothing: {lonely}")


def main() -> int:
    """Walk as asked."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--operations", type=int, default=5_000)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = asked.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return walk(given.operations, given.seed, Regrouping)


if __name__ == "__main__":
    sys.exit(main())
