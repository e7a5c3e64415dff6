"""Documents are cut into blocks that can be read by themselves, each where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.models.documents import DocumentType
from knowledge.documents.blocks.cut import cut_document
from knowledge.documents.blocks.model import BUDGET, Block, BlockKind
from tests.support.cases import over


def cut(text: str, kind: DocumentType = DocumentType.MARKDOWN) -> list[tuple[str, str]]:
    """Return kind and text of each block."""
    return [(each.kind.value, each.told or text[slice(*each.span)]) for each in cut_document(text, kind)]


def of(kind: BlockKind, text: str, document_type: DocumentType = DocumentType.MARKDOWN) -> list[Block]:
    return [each for each in cut_document(text, document_type) if each.kind is kind]


def test_code_is_a_block_with_the_sentence_that_leads_to_it() -> None:
    text = "# Restart\n\nSend a signal:\n\n```sh\nkill -HUP 1\n```\n\nThen wait.\n"
    assert cut(text)[0] == ("code", "Send a signal:\n\n```sh\nkill -HUP 1\n```")
    assert cut(text)[1] == ("paragraph", "Then wait.")


def test_what_leads_to_headings_is_kept_with_what_stands_below_them() -> None:
    text = "# Restart\n\nYou can do so through `ctl`:\n\n"
    text += "## Staging\n\n```\nctl stage\n```\n\n## Canary\n\n```\nctl bird\n```\n"
    blocks = of(BlockKind.CODE, text)
    assert [each.path for each in blocks] == [("Restart", "Staging"), ("Restart", "Canary")]
    assert {each.lead and text[slice(*each.lead)] for each in blocks} == {"You can do so through `ctl`:"}


def test_steps_are_one_block_and_items_are_blocks_beside_their_list() -> None:
    assert cut("To start:\n\n1. Open it.\n2. Press it.\n") == [("steps", "To start:\n\n1. Open it.\n2. Press it.")]
    assert cut("Tags:\n\n- **a**: one\n- **b**: two\n") == [
        ("list", "Tags:\n\n- **a**: one\n- **b**: two"),
        ("item", "- **a**: one"),
        ("item", "- **b**: two"),
    ]


def test_a_row_is_told_with_the_names_of_its_columns_and_quoted_as_it_stands() -> None:
    text = "| region | owner |\n|---|---|\n| east | Birch |\n"
    [row] = of(BlockKind.ROW, text)
    assert (row.told, text[slice(*row.span)]) == ("region: east; owner: Birch", "| east | Birch |")


def test_a_label_is_no_block_and_stands_above_what_follows() -> None:
    text = "# Guide\n\n**Backups**\n\nThey run at night.\n"
    [block] = of(BlockKind.PARAGRAPH, text)
    assert block.path == ("Guide", "Backups")


MANUAL = """NAME
       pumpd - moves water

OPTIONS
       -n, --dry-run
              Moves nothing, and tells what it would move.

       copy   Makes a copy of the water, but leaves the original
              where it is.

       One of these is needed:

       * a pump
       * a bucket
"""


def test_a_term_of_a_manual_is_a_block_with_its_body() -> None:
    terms = of(BlockKind.DEFINITION, MANUAL, DocumentType.TEXT)
    assert [MANUAL[slice(*each.span)].split(maxsplit=1)[0] for each in terms] == ["-n,", "copy"]
    assert all(each.path == ("OPTIONS",) for each in terms)
    [needed] = of(BlockKind.LIST, MANUAL, DocumentType.TEXT)
    assert MANUAL[slice(*needed.span)].startswith("One of these is needed:")


def test_a_setting_is_a_block_with_the_comment_above_it_alone() -> None:
    text = "# The port.\nport = 5\n\n# What nobody needs.\n\n# How many pumps run.\npumps = 2\n"
    assert [told for kind, told in cut(text, DocumentType.CONFIG) if kind == "setting"] == [
        "# The port.\nport = 5",
        "# How many pumps run.\npumps = 2",
    ]


@over("kind", list(DocumentType))
def test_no_block_is_longer_than_the_budget(kind: DocumentType) -> None:
    text = "It is said that pumps move water. " * 400 + "\n\n" + "pump = 1\n" * 2_000
    assert all(each.span.end - each.span.start <= BUDGET for each in cut_document(text, kind))


@pytest.mark.parametrize("kind", list(DocumentType))
@given(text=st.lists(st.sampled_from(["# a", "- b", "1. c", "| d | e |", "|-|-|", "```", "f:", "", "  g", "h = 1"])))
def test_every_block_stands_where_it_says(kind: DocumentType, text: list[str]) -> None:
    whole = "\n".join(text)
    for each in cut_document(whole, kind):
        assert 0 <= each.span.start < each.span.end <= len(whole)
        assert each.lead is None or whole[slice(*each.lead)].strip()


def test_a_table_of_contents_is_no_block() -> None:
    """It named what was asked for and said nothing of it."""
    text = "# Path\n\n- [Joining](#joining)\n- [`Parsing`](#parsing)\n\n"
    text += "## Joining\n\nIt joins.\n\n## Parsing\n\nIt parses.\n"
    assert [told for _, told in cut(text) if "#joining" in told and not told.startswith("#")] == []
    assert ("paragraph", "It joins.") in cut(text)
