"""Arguments that several operations take, with their descriptions for HTTP, MCP and the command line."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field, StrictBool

from hardwon.client.paging import PAGE_SIZE
from hardwon.coercion import Alias
from hardwon.models.entries import AppliesWhen
from hardwon.models.tasks import TaskFacts

LAST: Final[Any] = Field(description="What names the last one of the page before; left out, the list begins.")
Limit = Annotated[int, Field(ge=1, le=PAGE_SIZE, description="At most so many; a Link header leads to the next page.")]
LimitOrAll = Annotated[
    int | None, Field(ge=1, le=PAGE_SIZE, description="At most so many; a Link header leads to the next page.")
]

AgentType = Annotated[str | None, Field(description="The type of the agent, such as backend.")]
TaskType = Annotated[str | None, Field(description="What kind of task, such as bugfix.")]
AskedTaskType = Annotated[TaskType, Alias(("type",))]
Technology = Annotated[str | None, Field(description="Such as python.")]
TaskDescription = Annotated[str | None, Field(description="What the task was.")]
GateType = Annotated[str, Field(description="The gate, such as design_review.")]
ErrorMessage = Annotated[str | None, Field(description="The error, as it was printed.")]
Project = Annotated[str, Field(description="The project of the task.")]
RunId = Annotated[str | None, Field(description="The attempt at the task; an attempt counts once.")]
WhenToTry = Annotated[str | None, Field(description="When this is worth trying again.")]
Conditions = Annotated[
    AppliesWhen | None, Field(description="Facts without which what solved it, or was accepted, does not apply at all.")
]
Tried = Annotated[
    Collection[UUID | str] | None,
    Field(max_length=1000, description="The patterns that the agent followed; of the others nothing is recorded."),
]

# the service rejects values out of these bounds itself
MaxResults = Annotated[
    int,
    Field(description="How many patterns at most.", json_schema_extra={"minimum": 1, "maximum": 100}),
]
MinRelevance = Annotated[
    float | None,
    Field(
        description="Patterns less relevant are left out; without it, the settings say.",
        json_schema_extra={"minimum": 0, "maximum": 1},
    ),
]
OnlyIfSure = Annotated[StrictBool, Field(description="Nothing at all where the best is likely no match.")]
Facts = Annotated[
    TaskFacts | None,
    Field(description="What is known of where it is done: technology, its version, tool, error."),
]
