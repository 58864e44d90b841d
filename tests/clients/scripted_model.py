"""A model without a mind, so that Claude Code and Codex can be tried without an account.

    scripted_model.py PROJECT [GRAPH_ARGUMENTS_JSON]

Whatever it is asked, it has the assistant list the project's sessions, run the first one that is ready, and read the
run until it has ended; its last words are what that last call gave. Both dialects are served on a free port of the
loopback interface: POST /v1/messages (Anthropic) and POST /v1/responses (OpenAI), as streams. The first line on
standard output is its base URL, standard error tells each tool result. It runs until it is killed.
"""

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_LOOKS = 12


def next_step(results, project, graph_arguments):
    """What comes after these tool results: a tool and its arguments, or None and the last words."""
    if not results:
        return "list_graph_sessions", {"project_id": project}
    latest = parsed(results[-1])
    if latest is None:
        return None, f"FAILED: {results[-1]}"
    if len(results) == 1:
        ready = [session for session in latest["sessions"] if session["status"] == "ready"]
        if not ready:
            return None, "FAILED: no session is ready"
        session = ready[0]["graph_session_id"]
        return "run_graph_session", {
            "graph_session_id": session,
            "arguments": graph_arguments,
            "idempotency_key": str(uuid.uuid4()),
        }
    if len(results) == 2 or (latest["status"] in ("queued", "running") and len(results) < 2 + MOST_LOOKS):
        return "get_graph_run", {"command_id": latest["command_id"], "wait_s": 20}
    return None, json.dumps(latest)


def parsed(text):
    """The JSON object in a tool result, around which an assistant may have put words; None for an error's text."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError:
        return None


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class Anthropic:
    path = "/v1/messages"

    @staticmethod
    def results(body):
        messages = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        parts = [part for content in messages for part in content]
        return [text_of(part["content"]) for part in parts if part["type"] == "tool_result"]

    @staticmethod
    def named(body, tool):
        names = [offered.get("name", "") for offered in body.get("tools", [])]
        return next((name for name in names if name.endswith(f"__{tool}")), None)

    @staticmethod
    def call(name, arguments):
        block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": {}}
        return block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"

    @staticmethod
    def words(text):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn"

    @staticmethod
    def events(body, answer):
        block, delta, stop = answer
        message = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        ending = {"stop_reason": stop, "stop_sequence": None}
        yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}


class OpenAi:
    path = "/v1/responses"

    @staticmethod
    def results(body):
        return [text_of(item["output"]) for item in body["input"] if item["type"] == "function_call_output"]

    @staticmethod
    def named(body, tool):
        """A function's name, with the namespace in which Codex offers the tools of one server."""
        for offered in body.get("tools", []):
            name = offered.get("name", "")
            if any(inner.get("name") == tool for inner in offered.get("tools", [])):
                return {"name": tool, "namespace": name}
            if name.endswith(f"__{tool}"):
                return {"name": name}
        return None

    @staticmethod
    def call(name, arguments):
        ids = {"id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex}"}
        return {"type": "function_call", "arguments": json.dumps(arguments), **ids, **name}

    @staticmethod
    def words(text):
        said = [{"type": "output_text", "text": text}]
        return {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "content": said}

    @staticmethod
    def events(_body, item):
        response = {"id": f"resp_{uuid.uuid4().hex}"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        details = {"input_tokens_details": None, "output_tokens_details": None}
        yield {"type": "response.created", "response": response}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": {**response, "usage": {**usage, **details}}}


def handler(project, graph_arguments):
    def answer(dialect, body):
        results = dialect.results(body)
        if results:
            print(results[-1], file=sys.stderr, flush=True)
        tool, then = next_step(results, project, graph_arguments)
        if tool is None:
            return dialect.words(then)
        name = dialect.named(body, tool)
        # Without tools it is a question beside the work, such as for a title.
        return dialect.call(name, then) if name else dialect.words(f"FAILED: no tool {tool} is offered")

    class Model(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.split("?")[0]
            dialect = next((dialect for dialect in (Anthropic, OpenAi) if path == dialect.path), None)
            if dialect is None:
                return self.send(b'{"input_tokens": 1}', "application/json")
            events = dialect.events(body, answer(dialect, body))
            lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self.send("".join(lines).encode(), "text/event-stream")

        def do_GET(self):
            self.send(b'{"data": [], "models": []}', "application/json")

        do_HEAD = do_GET

        def send(self, payload, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(payload)

        def log_message(self, *_):
            """The tool results are what is worth telling."""

    return Model


def main(project, graph_arguments="{}"):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(project, json.loads(graph_arguments)))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
