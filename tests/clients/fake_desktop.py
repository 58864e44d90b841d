"""A scripted desktop: shares one Graph session and answers each of its commands with its arguments.

    fake_desktop.py HUB_URL DEVICE_TOKEN_FILE PROJECT

It speaks the relay API with nothing but the standard library, so that the clients beside it can be tried against a
hub alone, and a hub in another language against the same calls. It runs until it is killed.
"""

import json
import sys
import time
import urllib.error
import urllib.request

SESSION = {
    "id": "gs_" + "0123456789abcdef" * 2,
    "name": "echo",
    "description": "Returns its arguments",
    "slug": "echo",
    "version": 1,
    "status": "ready",
}
POLL_S = 0.5


class Hub:
    def __init__(self, url, token):
        self.base = url.rstrip("/") + "/external-assistants/graph-relays"
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path, body):
        """The answer to a call, with its status; a refusal is an answer too."""
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), self.headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def run(hub, command):
    """One command, from start to report. A call whose answer is lost may be sent again."""
    path = f"/commands/{command['command_id']}"
    status, answer = hub.post(f"{path}/start", {"attempt": 1})
    if status != 200:
        print(f"not started: {answer}", file=sys.stderr)
        return
    hub.post(f"{path}/check", {"phase": "echo", "done": 1, "total": 1})
    report = {"execution_id": command["command_id"], "status": "completed", "result": command["arguments"]}
    status, answer = hub.post(f"{path}/complete", report)
    print(f"{command['command_id']}: {answer['status']}", file=sys.stderr)


def main(url, token_file, project):
    with open(token_file, encoding="utf-8") as file:
        hub = Hub(url, file.read().strip())
    sync = {
        "project_id": project,
        "device": {"id": "fake-desktop", "name": "fake desktop", "version": "0", "busy": False},
        "known": [],
        "sessions": [SESSION],
        "accept": True,
    }
    while True:
        status, answer = hub.post("/sync", sync)
        if status != 200:
            sys.exit(f"the hub refused the sync: {status} {answer}")
        for command in answer["commands"]:
            run(hub, command)
        time.sleep(POLL_S)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
