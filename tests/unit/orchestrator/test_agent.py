"""The main agent: which tool, what it remembers, what it is told; and what is small talk."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any, cast

import pytest

from hardwon.client.transport import MAX_BODY_BYTES
from hardwon.errors import EmbedderUnavailable, QuestionRejected
from knowledge.documents.answering.pipeline import MAX_QUESTION
from knowledge.documents.llm import ChatReply, Message, Tool, ToolCall
from orchestrator.http.routes import answers as http_answers
from orchestrator.qa.agent import Conversation, MainAgent, Strategy, intent_of
from orchestrator.qa.tool_loop import MAX_ROUNDS, Arguments, OfferedTool, ToolLoop
from orchestrator.qa.wrappers import TOOLS
from tests.support.answering import ScriptedModel, call
from tests.support.cases import each_case, load_tables, over

SMALL_TALK = load_tables("test_agent")["SMALL_TALK"]
QUESTIONS = load_tables("test_agent")["QUESTIONS"]


@over("text", SMALL_TALK)
def test_a1_23_small_talk_is_chat_only(text: str) -> None:
    assert intent_of(text) == "chat_only"


@pytest.mark.timeout(20)
def test_many_small_words_before_a_question_take_no_longer_than_their_length() -> None:
    """They were read in two ways each: twenty of them held the server for 17 seconds."""
    for phrase in ("thank you ", "how are you doing ", "how are things doing ", "nice to meet you "):
        assert intent_of(phrase * 1000 + "for the config of nginx") == "kb_query"
        assert intent_of(phrase * 1000) == "chat_only"


@over("text", QUESTIONS)
def test_a1_23_questions_go_to_the_knowledge_base(text: str) -> None:
    assert intent_of(text) == "kb_query"


DESCRIBED = load_tables("test_agent")["DESCRIBED"]
"""Of each tool its first line, what it returns, and its examples; the team's are of our own."""


def test_a0_25_a0_26_tools_have_the_texts_of_the_design_and_parameters_of_their_own() -> None:
    schemas = {tool.schema().name: tool.schema() for tool in TOOLS}
    assert list(schemas) == [
        "answer_from_case_evidence",
        "answer_from_user_kb",
        "answer_from_global_kb",
        "answer_from_team_kb",
    ]
    assert [schema.parameters["required"] for schema in schemas.values()] == [
        ["case_id", "question"],
        ["user_id", "question"],
        ["question"],
        ["team_id", "question"],
    ]
    for schema, (about, returns, *examples) in zip(schemas.values(), DESCRIBED, strict=True):
        lines = schema.description.split("\n")
        assert (lines[0], lines[-1]) == (about, f"Returns: {returns}")
        assert lines[lines.index("Examples:") + 1 : -2] == [f'- "{example}"' for example in examples]
        assert len(examples) == 4
        assert schema.parameters["properties"]["k"]["default"] == 5


def told(conversation: Conversation, strategy: Strategy | None = None) -> str:
    return json.dumps([message.content for message in conversation.messages(strategy)])


def investigation() -> Conversation:
    conversation = Conversation()
    conversation.say("user", "Payment API is failing")
    conversation.add_tool_answer("answer_from_case_evidence", "347 ERROR entries", ["app.log"])
    conversation.say("user", "When did it start?")
    conversation.add_tool_answer("answer_from_case_evidence", "First error: 14:32:15", ["app.log"])
    conversation.add_tool_answer("answer_from_global_kb", "Pools run dry", ["KB-1"])
    return conversation


def test_a0_61_answers_of_all_phases_stay_in_the_conversation() -> None:
    for found in ("Payment API is failing", "347 ERROR", "14:32:15", "Pools run dry"):
        assert found in told(investigation())


def test_a0_60_there_are_three_strategies() -> None:
    assert "347" not in told(investigation(), Strategy.CONVERSATION)
    assert "Pools" in told(investigation(), Strategy.KNOWLEDGE)
    assert "347" not in told(investigation(), Strategy.KNOWLEDGE)
    assert "347" in told(investigation(), Strategy.EVIDENCE)
    assert "Pools" not in told(investigation(), Strategy.EVIDENCE)


def test_a0_61_what_does_not_fit_is_shortened_to_its_sources_oldest_first() -> None:
    conversation = Conversation()
    conversation.add_tool_answer("answer_from_case_evidence", "a" * 1000, ["app.log"])
    conversation.add_tool_answer("answer_from_case_evidence", "b" * 1000, ["db.log"])
    text = json.dumps([message.content for message in conversation.messages(max_chars=1500)])
    assert "aaa" not in text
    assert "app.log" in text
    assert "b" * 1000 in text


def tool(name: str = "look") -> Tool:
    return Tool(name=name, description="", parameters={"type": "object"})


def looking(model: ScriptedModel, *, max_calls: int = 5) -> tuple[ToolLoop, list[Arguments]]:
    seen: list[Arguments] = []

    async def look(arguments: Arguments) -> str:
        seen.append(arguments)
        if "bad" in arguments:
            raise ValueError("query is required")
        return json.dumps({"found": arguments})

    return ToolLoop(model=model, offered=[OfferedTool(tool=tool(), handler=look)], max_calls=max_calls), seen


START = [Message(role="user", content="?")]


async def test_a4_07_f8_eight_calls_side_by_side_with_a_limit_of_five_are_five() -> None:
    model = ScriptedModel([ChatReply(calls=tuple(call("look", str(n), n=n) for n in range(8))), ChatReply(text="done")])
    loop, seen = looking(model)
    assert (await loop.run(START)).text == "done"
    assert (len(seen), loop.calls) == (5, 5)
    assert model.asked[1][1].tool_choice == "none"
    answers = [message.content for message in model.asked[1][0] if message.role == "tool"]
    assert sum("limit of 5 calls" in answer for answer in answers) == 3


async def test_a4_07_the_limit_holds_over_rounds() -> None:
    model = ScriptedModel([ChatReply(calls=(call("look", str(n), n=n),)) for n in range(9)])
    loop, seen = looking(model, max_calls=3)
    await loop.run(START)
    assert len(seen) == 3
    assert [asking.tool_choice for _, asking in model.asked] == ["auto", "auto", "auto", "none"]


async def test_a4_16_a_missing_parameter_is_named_and_may_be_put_right_without_costing_a_call() -> None:
    model = ScriptedModel([ChatReply(calls=(call("look", "1", bad=1),)), ChatReply(calls=(call("look", "2", n=1),))])
    loop, seen = looking(model, max_calls=1)
    await loop.run(START)
    assert [arguments for arguments in seen if "n" in arguments] == [{"n": 1}]
    assert "query is required" in model.asked[1][0][-1].content


async def test_a4_11_a_tool_that_is_required_is_so_until_it_was_called() -> None:
    """Leafing through a list of what there is looks nothing up."""

    async def listed(_: Arguments) -> str:
        return "a, b"

    model = ScriptedModel([ChatReply(calls=(call("list", n=1),)), ChatReply(calls=(call("look", "2", n=1),))])
    loop, seen = looking(model)
    loop.offered = [*loop.offered, OfferedTool(tool=tool("list"), handler=listed, is_limited=False)]
    await loop.run(START, first="required")
    assert [asking.tool_choice for _, asking in model.asked] == ["required", "required", "auto"]
    assert seen == [{"n": 1}]


async def test_a4_21_calls_that_succeed_and_fail_are_counted_where_they_are_limited() -> None:
    async def listed(_: Arguments) -> str:
        return "a, b"

    calls = (call("look", "1", n=1), call("look", "2", bad=1), call("list", "3"))
    loop, _ = looking(ScriptedModel([ChatReply(calls=calls)]))
    loop.offered = [*loop.offered, OfferedTool(tool=tool("list"), handler=listed, is_limited=False)]
    await loop.run(START)
    assert (loop.succeeded, loop.failed) == (1, 1)


async def test_a4_13_no_call_goes_on_once_one_beside_it_broke_off() -> None:
    done: list[Arguments] = []

    async def look(arguments: Arguments) -> str:
        if "down" in arguments:
            raise EmbedderUnavailable("429")
        await asyncio.sleep(0.01)
        done.append(arguments)
        return "{}"

    model = ScriptedModel([ChatReply(calls=(call("look", "1", down=1), call("look", "2", n=1)))])
    loop = ToolLoop(model=model, offered=[OfferedTool(tool=tool(), handler=look)], max_calls=5)
    with pytest.raises(EmbedderUnavailable):
        await loop.run(START)
    assert done == [{"n": 1}], "or it would write into what is answered from by now"
    assert (loop.succeeded, loop.failed) == (1, 1)


async def test_f6_the_same_call_again_is_answered_from_memory() -> None:
    model = ScriptedModel([ChatReply(calls=(call("look", "1", n=1),)), ChatReply(calls=(call("look", "2", n=1),))])
    loop, seen = looking(model)
    await loop.run(START)
    assert len(seen) == 1
    assert "asked this before" in model.asked[2][0][-1].content


@pytest.mark.parametrize(
    "wrong",
    [
        ToolCall(call_id="1", name="look", arguments="{"),
        ToolCall(call_id="1", name="look", arguments='{"n":' * 5000 + "1" + "}" * 5000),
        ToolCall(call_id="1", name="look", arguments='{"n":' * 990 + "1" + "}" * 990),
        call("other", n=1),
    ],
    ids=["cut off", "too deep to be read", "too deep to be written", "no such tool"],
)
async def test_a4_15_a_call_that_cannot_be_read_is_told_apart(wrong: ToolCall) -> None:
    """Neither it nor those beside it are done, and it is the model's fault, not the asker's."""
    loop, seen = looking(ScriptedModel([ChatReply(calls=(call("look", "0", n=1), wrong))]))
    with pytest.raises(QuestionRejected, match="ask again"):
        await loop.run(START)
    assert not seen


@over("name", ["Look", "LOOK ", "functions.look"])
async def test_a_tool_is_known_by_its_name_however_a_model_writes_it(name: str) -> None:
    model = ScriptedModel([ChatReply(calls=(call(name, n=1),)), ChatReply(calls=(call("look", "2", n=1),))])
    loop, seen = looking(model)
    assert (await loop.run(START)).text == "done"
    assert seen == [{"n": 1}], "the same call again"
    assert loop.called_tools == ["look"]


@each_case
async def test_a_tool_whose_own_name_holds_a_dot_can_be_called(name: str, meant: str) -> None:
    async def found(_: Arguments) -> str:
        return "{}"

    offered = [OfferedTool(tool=tool(each), handler=found) for each in ("search", "Search", "kb.search")]
    loop = ToolLoop(model=ScriptedModel([ChatReply(calls=(call(name, n=1),))]), offered=offered, max_calls=1)
    await loop.run(START)
    assert loop.called_tools == [meant]


class Asked:
    """A tool that keeps what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[Arguments] = []
        self.told: list[list[str]] = []

    def schema(self) -> Tool:
        return tool(self.name)

    async def call(self, arguments: Arguments, conversation: list[dict[str, str]]) -> dict[str, object]:
        self.seen.append(arguments)
        self.told.append([turn["content"] for turn in conversation])
        return {"answer": "found", "sources": [], "chunk_count": 1, "confidence": 1.0, "status": "answered"}


async def test_the_agent_tells_a_model_of_a_call_that_cannot_be_read_and_answers_those_beside_it() -> None:
    """One slip of the pen is no reason to tell the asker nothing."""
    cut = ToolCall(call_id="3", name="manual", arguments='{"question": "Why')
    asked = ChatReply(calls=(call("memory", "1", question="Why?"), call("Look", "2", n=1), cut))
    model = ScriptedModel([asked, ChatReply(text="It is the pool.")])
    tools = [Asked("look"), Asked("manual")]
    assert await MainAgent(model, cast(Any, tools)).reply("Why?", Conversation()) == "It is the pool."
    assert [each.seen for each in tools] == [[{"n": 1}], []]
    *_, echoed, unknown, found, unread = model.asked[1][0]
    assert [each.arguments for each in echoed.calls] == ['{"question": "Why?"}', '{"n": 1}', "{}"]
    assert json.loads(unknown.content)["error"] == "there is no tool 'memory'; the tools are: look, manual"
    assert json.loads(found.content)["answer"] == "found"
    assert (
        json.loads(unread.content)["error"] == "the arguments of manual are not a JSON object: call it again with one"
    )


async def test_a0_61_a_tool_is_told_what_was_found_out_for_the_same_message_and_not_the_message() -> None:
    conversation, look = Conversation(), Asked("look")
    conversation.say("assistant", "Hello.")
    model = ScriptedModel(
        [ChatReply(calls=(call("look", "1", question="Which?"),)), ChatReply(calls=(call("look", "2", n=2),))]
    )
    await MainAgent(model, cast(Any, [look])).reply("Why?", conversation)
    assert look.told == [["Hello."], ["Hello.", "found"]]


async def test_what_a_model_thinks_aloud_is_no_part_of_its_reply_and_not_kept() -> None:
    conversation = Conversation()
    model = ScriptedModel([ChatReply(text="<think>\nThe pool, or the disk?\n</think>\n\nIt is the pool.")])
    assert await MainAgent(model, []).reply("Why?", conversation) == "It is the pool."
    assert [each.text for each in conversation.entries] == ["Why?", "It is the pool."]


async def test_a_model_that_only_asks_for_what_there_is_not_is_made_to_answer_in_the_end() -> None:
    model = ScriptedModel([ChatReply(calls=(call("none", n=1),)) for _ in range(20)])
    assert await MainAgent(model, []).reply("Why?", Conversation()) == ""
    assert [asking.tool_choice for _, asking in model.asked][-1] == "none"
    assert len(model.asked) == MAX_ROUNDS


async def test_f6_a_result_that_is_too_long_says_how_to_narrow() -> None:
    async def long(_: Arguments) -> str:
        return "x" * 30_000

    model = ScriptedModel([ChatReply(calls=(call("look", n=1),))])
    await ToolLoop(model=model, offered=[OfferedTool(tool=tool(), handler=long)], max_calls=2).run(START)
    assert "ask for less" in model.asked[1][0][-1].content


def test_the_conversation_that_a_reply_comes_with_fits_into_the_next_request() -> None:
    """A list of 500 log lines may have 100 KB: after a few of them the next message was refused as too large."""
    conversation = Conversation()
    for number in range(40):
        conversation.say("user", f"Which errors are in log {number}?")
        conversation.add_tool_answer("answer_from_case_evidence", f"{number}: \u0436" * 2_000, ["app.log"])
        conversation.say("assistant", "Many.")
    turns = http_answers._latest_turns(conversation.entries)
    assert len(json.dumps([asdict(each) for each in turns])) < MAX_BODY_BYTES - 6 * MAX_QUESTION
    assert [each.content for each in turns[-3:]] == [each.text for each in conversation.entries[-3:]]
    conversation.add_tool_answer("answer_from_case_evidence", "x" * MAX_BODY_BYTES)
    assert http_answers._latest_turns(conversation.entries)[-1].content == "Many."
