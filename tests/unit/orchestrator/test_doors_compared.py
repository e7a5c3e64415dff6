"""Routes, tools and commands compared with those before the one table; each difference is listed with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import doors

BEFORE = Path(__file__).parent / "doors"

_BOUNDS_SHOWN = "the bounds of max_results are shown; the service refuses others in its own words, as before"
_NOT_EMPTY = "an empty text is refused by the service, in the words it has in process, and not by the schema"
_SAME_ANSWER = "the type of the answer is the one of the route, with the same field: EntryCreated"
_NAMES = "types have the field's own names: WorkProgress was Done, AccessRevocation was Had, EventResult was Kept"
_LOGS = "a question to one knowledge base may bring the query of logs itself"
_ALARMS = "agents' keys that work against trusted lessons are named to whoever reviews"
_WORDS = "the help is in plain English"
_REASON = "a context says why it shows what it does, and is on record with the numbers of its choice"
_UNAIDED = "what came of a task without a hint is reported, too: it says how well agents do alone"
_INDEX = "the layout, the recall and the nodes of the index can be seen, and the layout changed"
_AGAIN = "what was stored before there was a rule for it is redacted again"
_RUNS = "programs tell the tool calls of their agents, and they teach, too"
_LESSON = "an entry says what was tried and did not help, and that text from outside was read before"
_LISTS = "people look through what the memory holds, filtered, sorted and counted"
_MAP = "people see which patterns lie together, and where nothing is known"
_CORRECTED = "a person corrects the texts of an entry, and what was replaced stays in its history"
_TAGGED = "people find patterns by words of their own"
_DEEDS = "what a person decides can be undone for a while"
_BACKED_UP = "backups are made, tried and restored"
_SEALED = "what was changed, removed or put back in Postgres is noticed, and a person can accept it"
_MISSING = (
    "an answer marks the sentence that matched; a refusal names the words that nothing holds, and the nearest block"
)
ROUTES: Mapping[str, str] = {
    "POST /v1/audit:head take_head": _SEALED,
    "POST /v1/audit:accept accept_altered": _SEALED,
    "POST /v1/audit:rotate-seal-key rotate_seal_key": _SEALED,
    "Acceptance": _SEALED,
    "SealHead": _SEALED,
    "SealReport": _SEALED,
    "CitationJson": _MISSING,
    "DocumentationResponse": _MISSING,
    "KBQueryResponse": _MISSING,
    "SelectionResponse": _MISSING,
    "ToolAnswer": _MISSING,
    "POST /v1/traces export_traces": "what agents do is read from their spans",
    "POST /v1/runs learn_run": _RUNS,
    "LearnedRun": _RUNS,
    "ToolCall": _RUNS,
    "ToolOutcome": _RUNS,
    "Entry": _LESSON,
    "POST /v1/entries capture": _LESSON,
    "POST /v1/entries/{entry_id}/resolution resolve": _LESSON,
    "POST /v1/deeds decide": _DEEDS,
    "POST /v1/deletions delete_later": _DEEDS,
    "POST /v1/undo/{deed_id} undo": _DEEDS,
    "GET /v1/deeds list_deeds": _DEEDS,
    "Deed": _DEEDS,
    "DeedKind": _DEEDS,
    "DeedState": _DEEDS,
    "POST /v1/entries/{entry_id}/correction correct_entry": _CORRECTED,
    "PUT /v1/patterns/{pattern_id}/tags tag_pattern": _TAGGED,
    "GET /v1/entries/{entry_id} get_entry": _CORRECTED,
    "EntryDetails": _CORRECTED,
    "EntryVersion": _CORRECTED,
    "GET /v1/entries list_entries": _LISTS,
    "GET /v1/jobs list_jobs": _LISTS,
    "JobRun": _LISTS,
    "JobState": _LISTS,
    "GET /v1/map show_map": _MAP,
    "MapGroup": _MAP,
    "MapMark": _MAP,
    "PatternMap": _MAP,
    "GET /v1/trends show_trends": _LISTS,
    "GET /v1/patterns/{pattern_id}/attempts list_attempts": _LISTS,
    "Attempt": _LISTS,
    "DayTrend": _LISTS,
    "ProjectTrend": _LISTS,
    "TrendCounts": _LISTS,
    "Trends": _LISTS,
    "GET /v1/patterns browse": _LISTS,
    "GET /v1/patterns list_patterns": _LISTS,
    "ListedPattern": _LISTS,
    "PatternFacets": _LISTS,
    "PatternPage": _LISTS,
    "POST /v1/redactions redact_again": _AGAIN,
    "RedactionReport": _AGAIN,
    "Added": _NAMES,
    "AddedDocument": _NAMES,
    "BatchAnswer": _NAMES,
    "Calibrated": _NAMES,
    "CalibrationReport": _NAMES,
    "CaptureResult": _NAMES,
    "Captured": _NAMES,
    "Distilled": _NAMES,
    "DistilledText": _NAMES,
    "DocumentationContextBody": _NAMES,
    "FrequentPattern": _NAMES,
    "GET /v1/review/key-alarms list_key_alarms": _ALARMS,
    "AlarmKind": _ALARMS,
    "KeyAlarm": _ALARMS,
    "GET /v1/review/alarms list_alarms": _NAMES,
    "OftenShown": _NAMES,
    "POST /api/kb/{kb}/{scope}/documents add_document": _NAMES,
    "POST /api/kb:calibrate calibrate_documents": _NAMES,
    "POST /subagents/documentation-qa documentation_qa": _NAMES,
    "Pattern": _NAMES,
    "orchestrator__http__answers__ContextBody": _NAMES,
    "AccessRevocation": _NAMES,
    "DELETE /api/kb/{kb}/{scope}/members/{principal} revoke_access": _NAMES,
    "Done": _NAMES,
    "EventResult": _NAMES,
    "GET /v1/archive/entries export_entries": "entries are exported as JSON lines, too",
    "GET /v1/operations/{operation} progress": _NAMES,
    "Group": _LOGS,
    "Had": _NAMES,
    "Kept": _NAMES,
    "LogQuery": _LOGS,
    "Order": _LOGS,
    "POST /api/kb/{kb}/{scope}/ask ask_knowledge_base": _LOGS,
    "POST /v1/gates:decided gate_decided": _NAMES,
    "POST /v1/tasks:failed task_failed": _NAMES,
    "POST /v1/tasks:solved task_solved": _NAMES,
    "WorkProgress": _NAMES,
    "GET /api/search search_passages": "document_id is an empty list by default, as it is in process, and not null",
    "POST /v1/keys create_key": "scopes are told as their texts, of which the service refuses others in its own words",
    "POST /v1/keys/{key_id}/rotation rotate_key": "the body may be left out, as all in it has a default",
    "POST /v1/queries/failure query_for_failure": _BOUNDS_SHOWN,
    "POST /v1/queries/gate query_for_gate": _BOUNDS_SHOWN,
    "POST /v1/queries/task query_for_task": _BOUNDS_SHOWN,
    "Choice": _REASON,
    "ChoiceRecord": _REASON,
    "Context": _REASON,
    "ContextCandidate": _REASON,
    "GET /v1/contexts list_contexts": _REASON,
    "GET /v1/contexts/{context_id} show_context": _REASON,
    "RecomputedChoice": _REASON,
    "ScoredCandidate": _REASON,
    "POST /v1/contexts/{context_id}/result record_unaided": _UNAIDED,
    "GET /v1/keys/unusable count_unusable_keys": "a command is a client, and says it, too",
    "KeyCount": "a command is a client, and says it, too",
    "POST /v1/contexts build_context": "a caller says how long it waits, so that a late answer comes in time",
    "Lift": "tasks with a hint are compared with those held out",
    "WorkspaceStats": "tasks with a hint are compared with those held out",
    "Task": "no hint is held out from an urgent task",
    "CollectionHealth": _INDEX,
    "GET /v1/index index_health": _INDEX,
    "IndexHealth": _INDEX,
    "POST /v1/layout rebuild_layout": _INDEX,
    "POST /v1/recall measure_recall": _INDEX,
    "POST /v1/verify verify": _INDEX,
    "RebuildReport": _INDEX,
    "RecallReport": _INDEX,
    "RecallSample": _INDEX,
    "VerifyReport": _INDEX,
    "POST /v1/sweeps sweep": "any span of time is bounded by a hundred years, as it is in process",
}
TOOLS: Mapping[str, str] = {
    "answer_from_case_evidence": _MISSING,
    "answer_from_global_kb": _MISSING,
    "answer_from_team_kb": _MISSING,
    "answer_from_user_kb": _MISSING,
    "build_context": _REASON,
    "record_unaided": _UNAIDED,
    "capture": _SAME_ANSWER,
    "resolve": _SAME_ANSWER,
    "gate_decided": _NOT_EMPTY,
    "list_unresolved": "the type of its items is UnresolvedEntry, which was Waiting",
    "query_for_failure": _NOT_EMPTY,
    "query_for_gate": _NOT_EMPTY,
    "query_for_task": _NOT_EMPTY,
    "record_outcome": "the type of its answer is OutcomeRecord, which was OutcomeKept",
    "task_failed": _NOT_EMPTY,
    "task_solved": _NOT_EMPTY,
}
_AGENTS = "coding agents get what is known by hooks, which are installed and removed"
_ORDER = "the options come in the order that the arguments of the method have; a JSON object is taken, too"
_INPUT = "the names of the fields are taken as well, and a JSON object as HTTP takes it"
_EVENT = "the events of tasks and gates are reported on the command line, too"
COMMANDS: Mapping[str, str] = {
    "hardwon demo": "a story shows what memory does before the figures do",
    "hardwon recent": _LISTS,
    "hardwon audit head": _SEALED,
    "hardwon audit accept": _SEALED,
    "hardwon audit rotate-seal-key": _SEALED,
    "hardwon deeds": _DEEDS,
    "hardwon undo": _DEEDS,
    "hardwon entries": _CORRECTED,
    "hardwon entries show": _CORRECTED,
    "hardwon entries correct": _CORRECTED,
    "hardwon jobs list": _LISTS,
    "hardwon map": _MAP,
    "hardwon trends": _LISTS,
    "hardwon patterns": _TAGGED,
    "hardwon patterns list": _LISTS,
    "hardwon patterns tag": _TAGGED,
    "hardwon backup": _BACKED_UP,
    "hardwon restore": _BACKED_UP,
    "hardwon context": _INPUT,
    "hardwon event": _EVENT,
    "hardwon event gate-decided": _EVENT,
    "hardwon event task-failed": _EVENT,
    "hardwon event task-solved": _EVENT,
    "hardwon query gate": _INPUT,
    "hardwon resolve": _INPUT,
    "hardwon unresolved": _INPUT,
    "hardwon contexts": _REASON,
    "hardwon contexts list": _REASON,
    "hardwon contexts show": _REASON,
    "hardwon evaluate learning": "whether the memory learns is measured",
    "hardwon outcome": _UNAIDED,
    "hardwon affected": _WORDS,
    "hardwon evaluate abstention": _WORDS,
    "hardwon evaluate merging": _WORDS,
    "hardwon jobs": "cron and the scheduler are commands, too",
    "hardwon jobs run": "cron and the scheduler are commands, too",
    "hardwon export": "entries are exported as JSON lines, too",
    "hardwon learn": "runs of coding agents teach, too",
    "hardwon learn sessions": "runs of coding agents teach, too",
    "hardwon learn job": "jobs of CI teach, too",
    "hardwon query": "a query without a kind is one before a task",
    "hardwon query failure": _ORDER,
    "hardwon query task": _ORDER,
    "hardwon rebuild": _INDEX,
    "hardwon redact": _AGAIN,
    "hardwon reembed": _WORDS,
    "hardwon review list": _ALARMS,
    "hardwon revoke": _WORDS,
    "hardwon verify": _INDEX,
    "hardwon hooks": _AGENTS,
    "hardwon hooks install": _AGENTS,
    "hardwon hooks remove": _AGENTS,
    "hardwon hooks status": _AGENTS,
    "hardwon watch": "a check is watched, and what makes it pass again is learned",
    "hardwon kb delete": "emptying a case does not close it, which --close asks for",
}
"""What differs from the files, by the name that a line begins with, and why."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "lines", "meant"),
    [
        ("routes", doors.routes, ROUTES),
        ("tools", doors.tools, TOOLS),
        ("helps", doors.helps, COMMANDS),
    ],
    ids=["routes", "tools", "commands"],
)
def test_what_differs_from_before_is_listed(
    name: str, lines: Callable[[], list[str]], meant: Mapping[str, str]
) -> None:
    before = _by_name((BEFORE / f"{name}.txt").read_text(encoding="utf-8").splitlines())
    now = _by_name(lines())
    differs = {each for each in before.keys() | now.keys() if before.get(each) != now.get(each)}
    shown = "\n".join(f"- {before.get(each)}\n+ {now.get(each)}" for each in sorted(differs - meant.keys()))
    assert not shown, f"not listed:\n{shown}"
    assert meant.keys() <= differs, "listed, though it is as before"


def _by_name(lines: list[str]) -> dict[str, str]:
    """Return lines by what they begin with: a method and path, the name of a type, a tool or a command."""
    named = {line.partition(" takes ")[0].partition(": ")[0].partition(" [")[0]: line for line in lines}
    assert len(named) == len(lines)
    return named
