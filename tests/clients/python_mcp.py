"""Lists the tools, runs a Graph and reads its result with the Python `mcp` client, in both eras of the protocol.

    python_mcp.py HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]

Runs the first session of the project that is ready. Exits with 0 when everything was as it should be. The client
itself holds each answer to the tool's output schema.
"""

import asyncio
import json
import sys
import time
import uuid

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

TOOLS = {"list_graph_sessions", "run_graph_session", "get_graph_run", "cancel_graph_run"}
ERAS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
PATHS = ["/mcp", "/api/v1/external-mcp"]
DEADLINE_S = 120


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAILED: {what}")


async def call(client, tool, arguments, fails=False):
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    check(bool(result.is_error) == fails, f"{tool} {arguments}: {text}")
    if fails:
        return text
    check(json.loads(text) == result.structured_content, f"{tool}: the text says something else than the structure")
    return result.structured_content


async def read_result(client, command):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        run = await call(client, "get_graph_run", {"command_id": command, "wait_s": 20})
        if run["status"] not in ("queued", "running"):
            return run
        print(f"    {run['status']} {run['progress']}")
    raise SystemExit(f"FAILED: {command} did not end within {DEADLINE_S} s")


async def try_everything(client, project, graph_arguments):
    tools = {tool.name for tool in (await client.list_tools()).tools}
    check(TOOLS <= tools, f"tools: {tools}")
    listed = await call(client, "list_graph_sessions", {"project_id": project})
    ready = [session for session in listed["sessions"] if session["status"] == "ready"]
    check(ready, f"no session is ready: {listed}")
    key = str(uuid.uuid4())
    arguments = {
        "graph_session_id": ready[0]["graph_session_id"],
        "idempotency_key": key,
        "arguments": graph_arguments,
    }
    queued = await call(client, "run_graph_session", arguments)
    again = await call(client, "run_graph_session", arguments)
    check(queued["command_id"] == again["command_id"], "the same key gave another command")
    run = await read_result(client, queued["command_id"])
    check(run["status"] == "completed", f"the run ended {run['status']}: {run['message']}")
    check("result" in run or run["result_truncated"], f"no result: {run}")
    refused = await call(client, "run_graph_session", {**arguments, "idempotency_key": "short"}, fails=True)
    check("idempotency_key" in refused and "8" in refused, refused)
    unknown = await call(client, "get_graph_run", {"command_id": str(uuid.uuid4())}, fails=True)
    check(unknown == "Graph run not found or access removed", unknown)
    print(f"    {ready[0]['name']}: {json.dumps(run.get('result'))[:100]}")


async def main(url, token_file, project, graph_arguments="{}"):
    with open(token_file, encoding="utf-8") as file:
        headers = {"Authorization": f"Bearer {file.read().strip()}"}
    for mode, version in ERAS.items():
        for path in PATHS:
            print(f"  {version} {path}")
            async with create_mcp_http_client(headers) as http:
                transport = streamable_http_client(url.rstrip("/") + path, http_client=http)
                async with Client(transport, mode=mode) as client:
                    await try_everything(client, project, json.loads(graph_arguments))
    print("ok: the Python client")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
