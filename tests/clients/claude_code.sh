#!/bin/sh
# Has Claude Code 2.1.332 list the sessions, run a Graph and read its result, with scripted_model.py as its model:
#   claude_code.sh HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]
# It runs the first session of the project that is ready, and exits with 0 when everything was as it should be.
# CLIENTS_DIR names the folder for the client (default: graph-relay-clients in the temporary folder); what is there
# is used again. Nothing but the installation leaves this machine.
set -eu
[ $# -ge 3 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
. "$(dirname "$0")/with_model.sh"
install claude @anthropic-ai/claude-code@2.1.332

# Tools that the assistant would first have to look for are offered at once.
claude() {
    (cd "$work" && env -i HOME="$work" PATH="$clean_path" ANTHROPIC_BASE_URL="$model_url" ANTHROPIC_API_KEY=none \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 ENABLE_TOOL_SEARCH=false claude "$@" </dev/null)
}

for path in /mcp /api/v1/external-mcp; do
    echo "  $path"
    claude mcp add --transport http graph-relay "$url$path" --header "Authorization: Bearer $token" >/dev/null
    answer=$(claude mcp list) || fail "mcp list: $answer"
    case "$answer" in *graph-relay*Connected*) ;; *) fail "mcp list: $answer" ;; esac
    answer=$(claude -p go --allowedTools 'mcp__graph-relay__*') || fail "$answer"
    completed "$answer"
    claude mcp remove graph-relay >/dev/null
done
echo "ok: Claude Code"
