#!/usr/bin/env bash
# Runs the tests of this directory; the arguments go to "go test". Afterwards it removes the
# containers that are left: those of a killed test, and the reaper.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# testcontainers labels every container of the run with this id.
TESTCONTAINERS_SESSION_ID=brim-itest-$$-$(date +%s)
export TESTCONTAINERS_SESSION_ID

sweep() {
    local label=org.testcontainers.sessionId=$TESTCONTAINERS_SESSION_ID left
    left=$(docker ps --all --quiet --filter "label=$label")
    if [[ -n $left ]]; then
        echo "run.sh: removing the containers that are left" >&2
        # Ids are single words, one a line.
        # shellcheck disable=SC2086
        docker rm --force --volumes $left >&2 || echo "run.sh: some are still there" >&2
    fi
}
trap sweep EXIT

"${GO:-go}" test -count 1 -v "$@" ./...
