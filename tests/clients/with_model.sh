# Read in by the scripts of assistants that need a model:
#   . with_model.sh HUB_URL TOKEN_FILE PROJECT [GRAPH_ARGUMENTS_JSON]
# sets url, token and scratch, starts scripted_model.py, and sets model_url and work, a folder that is removed at the
# end together with the model. Node comes from npm; python3 is needed.
url=${1%/} token=$(cat "$2")
scratch=${CLIENTS_DIR:-${TMPDIR:-/tmp}/graph-relay-clients}
mkdir -p "$scratch"
# What the assistants may see of this machine.
clean_path="$scratch/node_modules/.bin:/usr/bin:/bin"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# install COMMAND PACKAGE: with Node. Newer versions of npm run a package's install script only where it is allowed.
install() {
    [ ! -x "$scratch/node_modules/.bin/$1" ] || return 0
    (
        cd "$scratch"
        [ -f package.json ] || echo '{"private": true}' >package.json
        npm pkg set --json "allowScripts={\"node\": true, \"${2%@*}\": true}"
        npm install --silent --no-fund --no-audit node@22 "$2"
    )
}

# completed ANSWER: holds an assistant's last words, which the model took from the last tool result.
completed() {
    case "$1" in
    *'"status": "completed"'*) printf '    %.100s\n' "$1" ;;
    *) fail "$1" ;;
    esac
}

work=$(mktemp -d "$scratch/work.XXXXXX") model=
trap '[ -z "$model" ] || kill "$model"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
python3 "$(dirname "$0")/scripted_model.py" "$3" "${4:-{\}}" >"$work/url" 2>"$work/results" &
model=$! tries=0
until [ -s "$work/url" ]; do
    [ $tries -lt 50 ] || fail "the model did not start: $(cat "$work/results")"
    tries=$((tries + 1))
    sleep 0.1
done
model_url=$(cat "$work/url")
