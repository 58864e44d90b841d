#!/bin/sh
# Runs python_mcp.py with the Python `mcp` client 2.3.0, installed into a scratch folder:
#   python_mcp.sh HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]
# CLIENTS_DIR names the folder (default: graph-relay-clients in the temporary folder); what is there is used again.
set -eu
[ $# -ge 3 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
scratch=${CLIENTS_DIR:-${TMPDIR:-/tmp}/graph-relay-clients}
mkdir -p "$scratch"

[ -x "$scratch/venv/bin/python" ] || python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -c 'import importlib.metadata as m; assert m.version("mcp") == "2.3.0"' 2>/dev/null ||
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0

exec "$scratch/venv/bin/python" "$here/python_mcp.py" "$@"
