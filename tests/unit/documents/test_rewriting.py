"""Follow-up questions: what is searched for, and that nothing gets lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hardwon.errors import ChatUnavailable
from knowledge.documents.answering.query_rewriting import Rewriter, accept_rewrite, fold_question, prompt, refers
from knowledge.documents.llm import ChatOptions, ChatReply, Message
from knowledge.documents.models import Turn
from tests.support.answering import ScriptedModel
from tests.support.cases import over

TALK = (
    Turn(role="user", content="What errors in the log?"),
    Turn(role="assistant", content="347 ERROR entries, mostly connection timeouts"),
)


async def test_a0_82_without_a_conversation_the_question_stays_and_no_model_is_asked() -> None:
    model = ScriptedModel([])
    assert await Rewriter(language_model=model).rewrite("When did they start?", ()) == "When did they start?"
    assert not model.asked


async def test_a0_84_a_follow_up_is_searched_for_as_a_question_of_its_own() -> None:
    model = ScriptedModel([ChatReply(text='Rewritten question: "When did the connection timeouts start?"')])
    rewritten = await Rewriter(language_model=model).rewrite("When did they start?", TALK)
    assert rewritten == "When did the connection timeouts start?"


async def test_a0_82_a_question_that_refers_to_nothing_is_left_alone() -> None:
    model = ScriptedModel([])
    question = "Which port does the payment gateway listen on?"
    assert await Rewriter(language_model=model).rewrite(question, TALK) == question
    assert not model.asked


async def test_a0_83_the_model_sees_three_turns_of_200_characters_and_the_examples() -> None:
    turns = [Turn(role="user", content=f"turn {number} " + "x" * 500) for number in range(5)]
    told = prompt("When did they start?", turns)
    assert "turn 1" not in told
    assert all(f"user: turn {number} " in told for number in (2, 3, 4))
    assert max(map(len, told.splitlines())) < 260
    assert '"When did they start?" → "When did the connection timeout errors start?"' in told
    assert '"Show me the config" → "Show me the database connection pool configuration"' in told
    model = ScriptedModel([ChatReply(text="When did the timeouts start?")])
    await Rewriter(language_model=model).rewrite("When did they start?", TALK)
    asking: ChatOptions = model.asked[0][1]
    assert (asking.max_tokens, asking.temperature) == (150, 0.3)


class Slow(ScriptedModel):
    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        await asyncio.sleep(5)
        return ChatReply(text="too late")


@over(
    "model",
    [
        ScriptedModel([ChatUnavailable("down")]),
        ScriptedModel([ChatReply(text="   ")]),
        ScriptedModel([ChatReply(text="When did ERR-99 start?")]),
        Slow([]),
    ],
)
async def test_a0_85_failure_timeout_emptiness_and_invention_leave_the_question(model: ScriptedModel) -> None:
    rewriter = Rewriter(language_model=model, seconds=0.05)
    assert await rewriter.rewrite("When did they start?", TALK) == "When did they start?"


def test_a0_85_a_rewriting_that_drops_an_identifier_is_not_kept() -> None:
    assert accept_rewrite("What does that error mean?", "What does it mean, ERR-4521?", TALK) is None
    assert (
        accept_rewrite("What does ERR-4521 mean?", "What does it mean, ERR-4521?", TALK) == "What does ERR-4521 mean?"
    )


async def test_a0_84_without_a_model_the_last_question_is_searched_for_besides() -> None:
    assert await Rewriter().rewrite("When did they start?", TALK) == "What errors in the log?\nWhen did they start?"
    assert fold_question("Why?", ()) == "Why?"
    long = "Does it? " * 444
    assert fold_question(long, [Turn(role="user", content="x" * 200)]) == f"xxx\n{long}", (
        "no longer than a search takes"
    )


@over("question", ["When did they start?", "And on Fridays?", "Why?", "What about the other one?"])
def test_a0_87_questions_that_refer_are_known(question: str) -> None:
    assert refers(question)


@over(
    "question", ["Which port does the payment gateway listen on?", "How do I rotate the signing keys of the cluster?"]
)
def test_a0_87_questions_that_stand_alone_are_not_rewritten(question: str) -> None:
    assert not refers(question)


def test_a_rewriting_that_shares_no_word_with_question_and_conversation_is_not_kept() -> None:
    assert accept_rewrite("Which flowers bloom in spring?", "When did they start?", TALK) is None
