#!/bin/sh
# Has Codex 0.171.0 list the sessions, run a Graph and read its result, with scripted_model.py as its model:
#   codex.sh HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]
# It runs the first session of the project that is ready, and exits with 0 when everything was as it should be.
# CLIENTS_DIR names the folder for the client (default: graph-relay-clients in the temporary folder); what is there
# is used again. Nothing but the installation leaves this machine.
set -eu
[ $# -ge 3 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
. "$(dirname "$0")/with_model.sh"
install codex @openai/codex@0.171.0

cat >"$work/config.toml" <<TOML
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "$model_url/v1"
wire_api = "responses"
TOML

codex() {
    (cd "$work" && env -i HOME="$work" CODEX_HOME="$work" PATH="$clean_path" GRAPH_RELAY_TOKEN="$token" \
        codex "$@" </dev/null 2>>"$work/codex.log")
}

for path in /mcp /api/v1/external-mcp; do
    echo "  $path"
    codex mcp add graph-relay --url "$url$path" --bearer-token-env-var GRAPH_RELAY_TOKEN >/dev/null
    # Without a terminal nobody could say yes to a tool.
    answer=$(codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox go) ||
        fail "$answer $(tail -5 "$work/codex.log")"
    completed "$answer"
    codex mcp remove graph-relay >/dev/null
done
echo "ok: Codex"
