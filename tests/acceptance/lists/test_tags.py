"""Tags of patterns: a person's own words, by which people find them."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa

from hardwon.errors import AccessDenied, InvalidInput, NotFound
from hardwon.models.access import Scope
from hardwon.models.deeds import DeedKind
from hardwon.models.patterns import Pattern
from knowledge.access.principals import Principal, Trust
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import patterns
from knowledge.models import PatternId
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.cases import over
from tests.support.clients import client_of, http_of
from tests.support.entries import failure, learn
from tests.support.processes import Commands
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

PRINTER, CART = "Printer jams on labels", "TypeError in the cart total"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


async def _learn_two(knowledge: Knowledge) -> tuple[Pattern, Pattern]:
    await learn(knowledge, failure(failure_description=PRINTER), failure(failure_description=CART))
    found = {each.problem.split("\n")[0]: each for each in await knowledge.lists.patterns()}
    return found[PRINTER], found[CART]


async def _tags(knowledge: Knowledge, pattern_id: PatternId) -> tuple[str, ...]:
    return (await knowledge.grouping.show(pattern_id)).pattern.tags


@pytest.mark.long
async def test_a_tagged_pattern_is_found_by_its_tags_and_shown_with_them(knowledge: Knowledge) -> None:
    printer, cart = await _learn_two(knowledge)
    tagged = await knowledge.corrections.tag(printer.pattern_id, [" Flaky  Hardware ", "LABELS", "labels"])
    assert tagged.tags == ("flaky hardware", "labels")
    await knowledge.corrections.tag(cart.pattern_id, ["labels"])
    assert [each.pattern_id for each in await knowledge.lists.patterns(tag="Flaky hardware")] == [printer.pattern_id]
    found = await knowledge.lists.patterns(facets=True)
    assert found.facets is not None
    assert found.facets.tag == {"labels": 2, "flaky hardware": 1}
    assert {each.tags for each in found} == {("flaky hardware", "labels"), ("labels",)}
    (answer,) = await knowledge.queries.query_for_failure(PRINTER)
    assert answer.tags == tagged.tags
    assert await knowledge.lists.patterns(tag="unknown") == []
    await learn(knowledge, failure(failure_description=PRINTER, project_id="more"))
    assert await _tags(knowledge, printer.pattern_id) == tagged.tags, "more evidence changes none"
    assert (await knowledge.corrections.tag(printer.pattern_id, [])).tags == ()


async def test_tags_are_in_the_audit_log_without_their_words(knowledge: Knowledge) -> None:
    printer, _ = await _learn_two(knowledge)
    await knowledge.corrections.tag(printer.pattern_id, ["labels"])
    await knowledge.corrections.tag(printer.pattern_id, ["labels"])
    rows = [row for row in await knowledge.audits.list() if row.what == "pattern tagged"]
    assert [row.details for row in rows] == [f'{{"pattern": "{printer.pattern_id}", "tags": 1}}']


_BAD = {
    "blank": (["ok", " "], "has a blank tag"),
    "long": (["ok", "x" * 51], r"'x{30}…' of 51 characters, more than the 50"),
    "comma": (["a, b"], r"has a comma in 'a, b'"),
    "hidden": (["a\u202eb"], "has an invisible character in"),
    "nul": (["a\0"], "NUL"),
    "number": ([7], "has a number: each tag must be a text"),
    "object": ({"a": 1}, "must be a list, not an object"),
    "many": ([f"t{number}" for number in range(11)], "are 11, more than the 10"),
}


@pytest.mark.long
@over("bad", list(_BAD))
async def test_a_bad_tag_is_refused_by_name_and_nothing_changes(knowledge: Knowledge, bad: str) -> None:
    printer, _ = await _learn_two(knowledge)
    await knowledge.corrections.tag(printer.pattern_id, ["labels"])
    tags, message = _BAD[bad]
    with pytest.raises(InvalidInput, match=f"^tags: .*{message}"):
        await knowledge.corrections.tag(printer.pattern_id, tags)  # type: ignore[arg-type]
    assert await _tags(knowledge, printer.pattern_id) == ("labels",)


async def test_a_filter_that_is_no_tag_is_refused_and_a_pattern_that_is_not_there_gets_none(
    knowledge: Knowledge,
) -> None:
    with pytest.raises(InvalidInput, match=r"^tag: has a blank tag"):
        await knowledge.lists.patterns(tag=" ")
    with pytest.raises(NotFound):
        await knowledge.corrections.tag(PatternId(uuid4()), ["labels"])


async def test_a_tag_is_redacted_as_a_text_is_at_once_and_again(knowledge: Knowledge) -> None:
    printer, _ = await _learn_two(knowledge)
    tagged = await knowledge.corrections.tag(printer.pattern_id, [TOKEN])
    assert tagged.tags
    assert TOKEN.lower() not in repr(tagged)
    async with autocommit(knowledge.engine) as connection:  # as a tag of before there was a rule
        ours = sa.update(patterns).where(patterns.c.id == printer.pattern_id)
        await connection.execute(ours.values(tags=["labels", TOKEN]))
    assert (await knowledge.redaction.redact_again()).records == 1
    again = await _tags(knowledge, printer.pattern_id)
    assert again[0] == "labels"
    assert TOKEN not in repr(again)


async def test_a_join_keeps_the_tags_of_both_and_one_that_is_undone_changes_none(
    knowledge: Knowledge, clock: SetClock
) -> None:
    printer, cart = await _learn_two(knowledge)
    await knowledge.corrections.tag(printer.pattern_id, ["labels", "ours"])
    await knowledge.corrections.tag(cart.pattern_id, ["checkout", "ours"])
    deed = await knowledge.deeds.decide(DeedKind.JOIN, pattern_id=printer.pattern_id, other=cart.pattern_id)
    await knowledge.deeds.undo(deed.deed_id)
    clock.move(timedelta(minutes=1))
    await knowledge.deeds.perform_due()
    assert await _tags(knowledge, printer.pattern_id) == ("labels", "ours")
    assert await _tags(knowledge, cart.pattern_id) == ("checkout", "ours")

    await knowledge.grouping.join(printer.pattern_id, cart.pattern_id)
    both = ("checkout", "labels", "ours")
    assert await _tags(knowledge, printer.pattern_id) == both
    new = await knowledge.grouping.split(cart.entry_ids)
    assert (new.tags, await _tags(knowledge, printer.pattern_id)) == (both, both)
    more = await knowledge.corrections.tag(new.pattern_id, ["checkout"])
    assert (more.pattern_id, await _tags(knowledge, printer.pattern_id)) == (new.pattern_id, both)


async def test_who_tags_a_pattern_that_was_joined_tags_the_one_it_is_now(knowledge: Knowledge) -> None:
    printer, cart = await _learn_two(knowledge)
    await knowledge.grouping.join(printer.pattern_id, cart.pattern_id)
    assert (await knowledge.corrections.tag(cart.pattern_id, ["labels"])).pattern_id == printer.pattern_id


async def test_tags_go_with_their_pattern_though_the_index_still_has_its_points(knowledge: Knowledge) -> None:
    printer, _ = await _learn_two(knowledge)
    await knowledge.corrections.tag(printer.pattern_id, ["labels"])
    (entry_id,) = printer.entry_ids
    await knowledge.capture.delete(entry_id)
    async with autocommit(knowledge.engine) as connection:
        stored = await connection.execute(sa.select(patterns.c.tags).where(patterns.c.id == printer.pattern_id))
        assert [tags for (tags,) in stored if tags] == []
    assert await knowledge.lists.patterns(tag="labels") == []


@pytest.mark.long
async def test_the_doors_give_the_same_and_only_who_may_review_tags(knowledge: Knowledge) -> None:
    printer, _ = await _learn_two(knowledge)
    reader = Principal(trust=Trust.KEY, scopes=frozenset({Scope.QUERY}), workspace=knowledge.workspace, key_id="k")
    with pytest.raises(AccessDenied):
        await knowledge.for_principal(reader).corrections.tag(printer.pattern_id, ["labels"])
    path = f"/v1/patterns/{printer.pattern_id}/tags"
    async with client_of(knowledge) as client, http_of(knowledge) as http:
        assert (await client.corrections.tag(printer.pattern_id, ["B", "a"])).tags == ("a", "b")
        answer = await http.put(path, json={"tags": ["labels"]})
        assert (answer.status_code, answer.json()["tags"]) == (200, ["labels"])
        listed = await http.get("/v1/patterns", params={"tag": "LABELS", "facets": "true"})
        assert [each["tags"] for each in listed.json()["patterns"]] == [["labels"]]
        assert listed.json()["facets"]["tag"] == {"labels": 1}
        assert [each.tags for each in await client.lists.patterns(tag="labels")] == [("labels",)]
        for body in ({}, {"tags": {"a": 1}}, {"tags": ["a,b"]}, {"tag": "a"}):
            refused = await http.put(path, json=body)
            assert refused.status_code == 422, body
            assert "tags" in refused.text, body
        assert (await http.get("/v1/patterns", params={"tag": "x" * 51})).json()["field"] == "tag"


@pytest.mark.long
def test_a_person_tags_and_filters_on_the_command_line(of_module: Commands) -> None:
    entry = '{"entry_type": "gate_approval", "project_id": "shop", "gate_type": "review", "approved_approach": "Queue"}'
    of_module.run("capture", "-", told=entry)
    of_module.run("checkpoint", "--all")
    (listed,) = of_module.json("patterns", "list")["patterns"]
    pattern_id = listed["pattern_id"]
    assert "Tags: queue, shop" in of_module.run("patterns", "tag", pattern_id, "Shop", "queue").stdout
    assert "tags: queue, shop" in of_module.run("patterns", "list", "--tag", "shop").stdout
    assert of_module.json("patterns", "list", "--tag", "none")["patterns"] == []
    assert "it has no tags" in of_module.run("patterns", "tag", pattern_id).stdout
