#!/bin/sh
# Runs PostgreSQL in a container. The arguments are options of the server, "-c" for instance.
#
# The first start makes the data directory. Like the official image, it needs POSTGRES_PASSWORD, the
# password of the user postgres, or POSTGRES_HOST_AUTH_METHOD=trust. The other POSTGRES_ variables
# of the official image have no effect. While it makes the data directory, no server runs.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
    password=${POSTGRES_PASSWORD:-}
    if [ "$method" != trust ] && [ -z "$password" ]; then
        echo "entrypoint.sh: set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
        exit 1
    fi
    file=$(mktemp)
    printf '%s\n' "${password:-unused}" >"$file"
    initdb --username=postgres --pwfile="$file" --auth=trust --encoding=UTF8 --locale=C.UTF-8 \
        --no-instructions
    rm "$file"
    # initdb lets the loopback in; this line is for the other containers and for the host.
    echo "host all all all $method" >>"$PGDATA/pg_hba.conf"
fi
exec postgres -c listen_addresses='*' "$@"
