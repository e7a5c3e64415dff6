"""`hardwon mcp`: the tools of an orchestrator and its agents on standard input and output."""

from __future__ import annotations

import importlib.util

import typer

from hardwon.errors import InvalidSetting, NotFound
from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.run import Workspace, run


def add_mcp(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def mcp(*, workspace: Workspace = DEFAULT_WORKSPACE) -> None:
        """Serve MCP on standard input and output, until the input ends. Its tools are for orchestrators and agents."""
        if importlib.util.find_spec("mcp") is None:
            from hardwon.installation import install_command

            raise InvalidSetting("hardwon mcp", f"needs the SDK of the protocol: {install_command('mcp')}")

        async def work() -> None:
            from orchestrator.cli.support.session import connect
            from orchestrator.mcp.server import serve_streams
            from orchestrator.mcp.tools import Caller

            async with connect(workspace=workspace) as knowledge:
                try:
                    allowed = frozenset(await knowledge.allowed())
                except NotFound:  # a server of the release before has no such route
                    await serve_streams(Caller(knowledge=knowledge, may=lambda _: True))
                    return
                await serve_streams(Caller(knowledge=knowledge, may=allowed.__contains__))

        run(work, until_stopped=True)
