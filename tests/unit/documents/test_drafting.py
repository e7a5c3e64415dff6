"""What is read of a model's reply, however it puts the form that it was asked for."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from knowledge.documents.answering.llm_draft import Draft, read_reply
from knowledge.documents.verification.verify import DraftClaim
from tests.support.answering import answered
from tests.support.cases import over

CLAIM = DraftClaim(text="The pool holds 40.", quotes=((1, "holds 40\nconnections"),))
REPLY = answered((CLAIM.text, CLAIM.quotes), missing="How long?")


@over(
    "said",
    [
        REPLY,
        f"```json\n{REPLY}\n```",
        f"Sure! Here is the JSON:\n\n{REPLY}\n\nLet me know if you need {{anything}} else.",
        f"From {{sources}} I take the first one.\n{REPLY}",
        f"<think>{answered(('No.', []))} or so?</think>\n{REPLY}",
        f"{answered(('The pool holds 4.', []))}\n\nNo, that is wrong. Once more:\n\n{REPLY}",
        REPLY.replace("\\n", "\n"),
        REPLY.replace('"source": 1', '"source": "1"').replace('"found": true', '"found": "true", "confidence": 0.9'),
        f"{REPLY}{REPLY}",
    ],
)
def test_the_form_is_read_whatever_stands_around_it(said: str) -> None:
    assert read_reply(said) == Draft(claims=(CLAIM,), missing="How long?")


@over("broken", ["The pool holds 40.", {"text": None}, {"text": "x", "quotes": [{"source": "A"}]}])
def test_a_claim_that_cannot_be_read_is_a_fault_and_leaves_the_others(broken: object) -> None:
    told = json.loads(REPLY)
    told["claims"].insert(0, broken)
    draft = read_reply(json.dumps(told))
    assert draft.claims == (CLAIM,)
    assert draft.faults == ("claim 1: it is not the JSON object that was asked for",)


@over(
    "said",
    [
        "",
        "I cannot help with that.",
        REPLY[:-20],
        REPLY.replace("holds", r"\ud83d holds"),
        "{" * 50_000,
        '{"a":' * 50_000,
        "[]",
        '{"claims": []}',
        "null",
    ],
)
def test_what_has_no_form_is_a_fault_and_nothing_else(said: str) -> None:
    assert read_reply(said) == Draft(faults=("it is not the JSON object that was asked for",))


@given(st.text(), st.text())
def test_no_text_around_the_form_raises_anything(before: str, after: str) -> None:
    assert isinstance(read_reply(f"{before}{REPLY}{after}"), Draft)
