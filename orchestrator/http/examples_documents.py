"""The examples of the OpenAPI document for documents and answers: one runbook, and questions it answers or not."""

from __future__ import annotations

from typing import Any, Final

_DOCUMENT = "97047516-ffb4-46bd-83b2-4ac75987c9ac"
_PASSAGE = "4bd45f07-a9fd-57de-af57-439040b55406"
_ANSWER = "34d009c3-dc20-488c-93e8-4b911246de73"
_SOURCE = "5d1b7f0a-3a0e-4b0e-9a59-60d2b8a6b3c1"
_ESCALATION = "87d02ffd-8d15-4faf-9880-27a185c8dd0c"
_AT = "2026-03-02T09:30:00Z"
_NEXT_DAY = "2026-03-03T09:30:00Z"
_QUESTION = "How long does the cart service wait for Postgres?"
_SENTENCE = "The cart service waits 30 seconds for Postgres, then gives up with ERR-4521."
_UNKNOWN = "Who is on call at Easter?"

VALUES: Final[dict[str, Any]] = {
    "kb": "global",
    "scope": "-",
    "document_id": [_DOCUMENT],
    "source_id": _SOURCE,
    "case_id": "4711",
    "user_id": "ann",
    "principal": "ann",
    "event_id": _ANSWER,
    "escalation_id": _ESCALATION,
    "q": _QUESTION,
    "uri": "runbooks/timeouts.md",
}
"""Parameters in a path or a query."""

_ASKED: Final = {"question": _QUESTION}
REQUESTS: Final[dict[str, Any]] = {
    "add_document": f"# Timeouts\n\n{_SENTENCE}\n",
    "index_documents": {"documents": [_DOCUMENT]},
    "add_source": {
        "url": "https://git.example.org/handbook.git",
        "branch": "main",
        "subdir": "docs",
        "globs": ["*.md"],
    },
    "query_knowledge_base": {"query": _QUESTION},
    "documentation_qa": {
        "session_id": 7,
        "step_id": "s1",
        "question": _QUESTION,
        "context": {"conversation_tail": [], "focus": {"product": "cart"}},
        "planner_payload": {"tool_name": "documentation_qa", "result_key": "docs"},
    },
    "documentation_best_effort": _ASKED,
    "ask_documents": _ASKED,
    "ask_knowledge_base": {"question": _QUESTION, "k": 5},
    "ask_agent": {"message": _QUESTION},
    "give_feedback": {"answer_id": _ANSWER, "up": True},
}

_LISTED: Final[dict[str, Any]] = {
    "document_id": _DOCUMENT,
    "partition": "global_kb",
    "uri": "runbooks/timeouts.md",
    "name": "timeouts.md",
    "title": "Timeouts",
    "document_type": "markdown",
    "category": "ops",
    "tags": ["database"],
    "link": None,
    "version": 1,
    "status": "indexed",
    "error": None,
    "generation": 1,
    "waiting": False,
    "lines": 7,
    "characters": 176,
    "content_hash": "c759f039a7fb240183b1a39cdfdb97d88561d5ab0dfc71f83368d6d7a85d3501",
    "added_at": _AT,
    "indexed_at": _AT,
    "notes": [],
    "source_id": None,
}
_KEPT_SOURCE: Final = {
    "source_id": _SOURCE,
    "partition": "global_kb",
    **REQUESTS["add_source"],
    "last_commit": None,
    "last_error": None,
    "synced_at": None,
}
_CITATION: Final = {
    "number": 1,
    "title": "Timeouts",
    "path": "runbooks/timeouts.md",
    "score": 0.7965,
    "quote": _SENTENCE,
    "document_id": _DOCUMENT,
    "section": "Timeouts",
    "page": None,
    "lines": [3, 3],
    "time": None,
    "category": "ops",
    "commit": None,
}
_COUNT: Final = {"documents": 1}

ANSWERS: Final[dict[str, Any]] = {
    "add_document": {
        "document": {**_LISTED, "status": "pending", "generation": None, "waiting": True, "indexed_at": None},
        "changed": True,
    },
    "list_documents": [_LISTED],
    "delete_documents": _COUNT,
    "retry_documents": _COUNT,
    "close_case": _COUNT,
    "delete_user_documents": _COUNT,
    "list_sources": [_KEPT_SOURCE],
    "add_source": _KEPT_SOURCE,
    "forget_source": _COUNT,
    "sync_sources": [
        {
            "source_id": _SOURCE,
            "url": "https://git.example.org/handbook.git",
            "commit": "3f786850e387550fdab836ed7e6dc881de23001b",
            "added": 3,
            "unreadable": 0,
            "deleted": 1,
            "unchanged": 40,
            "error": None,
        }
    ],
    "list_members": ["ann", "bob"],
    "revoke_access": {"revoked": True},
    "search_passages": {
        "passages": [
            {
                "passage_id": _PASSAGE,
                "kind": "chunk",
                "document_id": _DOCUMENT,
                "partition": "global_kb",
                "text": f"# Timeouts\n\n{_SENTENCE}",
                "title": "Timeouts",
                "name": "timeouts.md",
                "uri": "runbooks/timeouts.md",
                "link": None,
                "document_type": "markdown",
                "category": "ops",
                "tags": ["database"],
                "version": 1,
                "section": "Timeouts",
                "function": None,
                "page": None,
                "line_start": 1,
                "line_end": 3,
                "char_start": 0,
                "char_end": 88,
                "timestamp": None,
                "until": None,
                "severity": None,
                "relevance": 0.7965,
                "score": 0.8575,
                "generation": 1,
                "ordinal": 0,
            }
        ],
        "searched": [_QUESTION],
        "coverage": None,
        "empty_scope": False,
        "pending": 0,
        "error": None,
        "trace": [],
        "notes": [],
    },
    "index_documents": {"indexed": 1, "failed": 0, "postponed": 0, "removed": 0, "reason": None},
    "calibrate_documents": {
        "model": "all-MiniLM-L6-v2",
        "passages": 200,
        "low": 0.004,
        "high": 0.781,
        "shipped_low": 0.0,
        "shipped_high": 0.78,
    },
    "query_knowledge_base": {
        "status": "success",
        "query": _QUESTION,
        "answer": f"According to [Timeouts], {_SENTENCE}\n\nSources: [Timeouts]",
        "sources": [
            {
                "title": "Timeouts",
                "url": "runbooks/timeouts.md",
                "path": "runbooks/timeouts.md",
                "category": "ops",
                "excerpt": _SENTENCE,
                "relevance_score": 0.95,
                "commit": None,
            }
        ],
        "total_sources": 1,
        "answer_id": _ANSWER,
        "extractive": True,
    },
    "documentation_qa": {
        "step_id": "s1",
        "status": "success",
        "answer": _SENTENCE,
        "citations": [_CITATION],
        "reasoning": "Summarized available guidance from Timeouts",
        "metrics": {"latency_ms": 76, "retrieval_count": 2},
        "result_key": "docs",
        "answer_id": _ANSWER,
        "extractive": True,
        "coverage_score": 0.6089,
    },
    "documentation_best_effort": {"answer": _SENTENCE},
    "ask_documents": {
        "status": "answered",
        "question": _QUESTION,
        "answer": _SENTENCE,
        "citations": [_CITATION],
        "documents": ["timeouts.md"],
        "lookups": 1,
        "fallback": False,
        "reason": None,
        "answer_id": _ANSWER,
        "extractive": False,
        "latency_ms": 930.0,
    },
    "ask_knowledge_base": {
        "answer": f'{_SENTENCE} ["Timeouts"]\n\nKnowledge Base: Timeouts (1 chunk, 80% relevance)',
        "sources": ["Timeouts"],
        "chunk_count": 1,
        "confidence": 0.7965,
        "status": "answered",
        "citations": [_CITATION],
        "searched": [_QUESTION],
        "extractive": True,
        "cached": False,
        "error": None,
    },
    "ask_agent": {
        "reply": _SENTENCE,
        "intent": "kb_query",
        "tools": ["answer_from_global_kb"],
        "conversation": [
            {"role": "user", "content": _QUESTION, "tool": None, "sources": []},
            {"role": "tool", "content": _SENTENCE, "tool": "answer_from_global_kb", "sources": ["Connection pool"]},
            {"role": "assistant", "content": _SENTENCE, "tool": None, "sources": []},
        ],
    },
    "list_events": [
        {
            "event_id": _ANSWER,
            "name": "question_answered",
            "happened_at": _AT,
            "session": None,
            "step": None,
            "payload": {"system": "selection", "status": "answered", "question": _QUESTION},
            "reviewed": False,
        }
    ],
    "list_escalations": [
        {
            "escalation_id": _ESCALATION,
            "question": _UNKNOWN,
            "transcript": [{"role": "user", "content": _UNKNOWN}],
            "passage_ids": [_PASSAGE],
            "suggested_fix": "Answer it in the documentation; nearest is Timeouts.",
            "created_at": _AT,
            "due_at": _NEXT_DAY,
            "occurrences": 2,
            "priority": "high",
            "closed_at": None,
        }
    ],
    "answer_metrics": {
        "answers": 5,
        "answered_rate": 0.6,
        "no_answer_rate": 0.4,
        "error_rate": 0.0,
        "cache_hit_rate": 0.0,
        "dropped_claims": 0,
        "mean_coverage": 0.62,
        "over_budget_rate": 0.0,
        "tool_use_rate": 0.0,
        "mean_lookups": 0.0,
        "lookup_success_rate": 0.0,
        "fallback_rate": 1.0,
        "lookup_p50_ms": 0.0,
        "standard_p50_ms": 65.0,
        "latency_p50_ms": 65.0,
        "latency_p95_ms": 83.5,
        "documents_chosen": {},
    },
}
