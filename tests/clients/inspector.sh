#!/bin/sh
# Lists the tools, runs a Graph and reads its result with MCP Inspector 2.12.0, in both eras of the protocol:
#   inspector.sh HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]
# It runs the first session of the project that is ready, and exits with 0 when everything was as it should be.
# CLIENTS_DIR names the folder for the client (default: graph-relay-clients in the temporary folder); what is there
# is used again. Node comes with it; npm is needed for the first run.
set -eu
[ $# -ge 3 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
url=${1%/} token=$(cat "$2") project=$3 graph_arguments=${4:-'{}'}
scratch=${CLIENTS_DIR:-${TMPDIR:-/tmp}/graph-relay-clients}
mkdir -p "$scratch/home"

[ -x "$scratch/node_modules/.bin/mcp-inspector" ] || (
    cd "$scratch"
    [ -f package.json ] || echo '{"private": true}' >package.json
    # Newer versions of npm run a package's install script only where it is allowed.
    npm pkg set --json 'allowScripts={"node": true}'
    npm install --silent --no-fund --no-audit node@22 @modelcontextprotocol/inspector@2.12.0
)

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# inspector ARGUMENTS…: one request in the era and at the path under test; its answer as JSON on stdout.
inspector() {
    env -i HOME="$scratch/home" PATH="$scratch/node_modules/.bin:/usr/bin:/bin" \
        mcp-inspector --cli "$url$path" --transport http --protocol-era "$era" \
        --header "Authorization: Bearer $token" "$@"
}

# call TOOL KEY=VALUE…: what the tool answers, as JSON.
call() {
    tool=$1
    shift
    for pair in "$@"; do
        set -- "$@" --tool-arg "$pair"
        shift
    done
    inspector --method tools/call --tool-name "$tool" "$@"
}

# queue: queues a run of the session under the key; its command id.
queue() {
    answer=$(call run_graph_session "graph_session_id=$session" "idempotency_key=$key" "arguments=$graph_arguments") ||
        fail "run_graph_session: $answer"
    printf '%s' "$answer" | of 'it.structuredContent.command_id'
}

# of EXPRESSION: evaluates it over the JSON on stdin, called `it`.
of() {
    "$scratch/node_modules/.bin/node" -e '
        const it = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const value = eval(process.argv[1]);
        console.log(typeof value === "string" ? value : JSON.stringify(value));' "$1"
}

for era in legacy modern; do
    for path in /mcp /api/v1/external-mcp; do
        echo "  $era $path"
        # With --strict it fails where a schema would not be understood by common clients.
        answer=$(inspector --method tools/list --strict) || fail "tools/list"
        tools=$(printf '%s' "$answer" | of 'it.tools.map(t => t.name).join(" ")')
        for tool in list_graph_sessions run_graph_session get_graph_run cancel_graph_run; do
            case " $tools " in *" $tool "*) ;; *) fail "no $tool among: $tools" ;; esac
        done

        answer=$(call list_graph_sessions "project_id=$project") || fail "list_graph_sessions: $answer"
        session=$(printf '%s' "$answer" |
            of '(it.structuredContent.sessions.find(s => s.status === "ready") ?? {}).graph_session_id ?? ""')
        [ -n "$session" ] || fail "no session of $project is ready"

        key="inspector-$$-$era-$(date +%s)-${#path}"
        command=$(queue)
        again=$(queue)
        [ "$command" = "$again" ] || fail "the same key gave $command and $again"

        status=queued tries=0
        while [ "$status" = queued ] || [ "$status" = running ]; do
            [ $tries -lt 12 ] || fail "$command is still $status"
            tries=$((tries + 1))
            answer=$(call get_graph_run "command_id=$command" wait_s=20) || fail "get_graph_run: $answer"
            status=$(printf '%s' "$answer" | of 'it.structuredContent.status')
        done
        [ "$status" = completed ] || fail "$command ended $status: $answer"
        printf '%s' "$answer" | of '"    " + JSON.stringify(it.structuredContent.result).slice(0, 100)'

        answer=$(call get_graph_run command_id=0199c0de-0000-7000-8000-00000000ffff 2>&1 || true)
        case "$answer" in *"Graph run not found or access removed"*) ;; *) fail "an invented id: $answer" ;; esac
    done
done
echo "ok: MCP Inspector"
