#!/usr/bin/env bash
# Prints the name of an image that the Docker daemon has, of PostgreSQL, Redis or Valkey: "image.sh
# postgres 15", "image.sh redis 6.2", "image.sh valkey 9".
#
# It takes the official image if the daemon has it or can pull it. Otherwise it takes the image
# brim-postgres:15 or brim-redis:7, and builds that image from Debian's packages if it is not there
# yet. A build takes about a minute and needs root, debootstrap and a Debian mirror, which apt's
# configuration names. Progress goes to stderr. If no image can be had, the last line on stderr
# says why.
#
#   docker rmi brim-postgres:15     makes the next run build the image anew
set -euo pipefail

die() {
    echo "image.sh: $*" >&2
    exit 1
}

say() { echo "image.sh: [${SECONDS}s] $*" >&2; }

[[ $# == 2 && $1 =~ ^(postgres|redis|valkey)$ && $2 =~ ^[0-9.]+$ ]] ||
    die "usage: image.sh postgres|redis|valkey VERSION, for instance image.sh postgres 15"
name=$1 major=$2
official=$name:$major-alpine
[[ $name != valkey ]] || official=valkey/$official
own=brim-$name:$major
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

present() { docker image inspect "$1" >/dev/null 2>&1; }

docker version >/dev/null 2>&1 || die "no Docker daemon answers"
if ! present "$official"; then
    say "pulling $official"
    if ! refusal=$(docker pull "$official" 2>&1 >&2); then
        official=
        say "${refusal##*$'\n'}"
    fi
fi
if [[ -n $official ]]; then
    echo "$official"
    exit
fi
if present "$own"; then
    echo "$own"
    exit
fi

# The Debian release with this version of the server, and the package.
case $name:$major in
postgres:15) suite=bookworm package=postgresql-15 ;;
postgres:17) suite=trixie package=postgresql-17 ;;
postgres:18) suite=forky package=postgresql-18 ;;
redis:7) suite=bookworm package=redis-server ;;
*) die "the official image cannot be pulled, and no Debian release has $name $major" ;;
esac
unavailable="the official image cannot be pulled, and $own cannot be built"
for program in apt-get debootstrap flock unshare; do
    command -v "$program" >/dev/null || die "$unavailable without $program"
done
((EUID == 0)) || die "$unavailable by another user than root"
# shellcheck disable=SC2016 # apt expands the format
mirror=$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
[[ -n $mirror ]] || die "$unavailable: apt knows no Debian mirror"

dir=$(mktemp -d "${TMPDIR:-/tmp}/brim-image-XXXXXX")
log=$dir/log
root=$dir/root
job=

clean() {
    trap '' HUP INT TERM
    if [[ -n $job ]]; then
        kill -KILL "$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$dir"
}
trap clean EXIT
trap 'say "interrupted"; exit 130' HUP INT TERM

# step prints $1, then runs the command in the rest of its arguments. The command runs in the
# background, so that a signal ends the script at once and not after the command.
step() {
    say "$1"
    shift
    "$@" >>"$log" 2>&1 </dev/null &
    job=$!
    if ! wait "$job"; then
        job=
        tail -n 20 "$log" >&2
        die "$unavailable: $(tail -n 1 "$log")"
    fi
    job=
}

# isolated runs a command in namespaces of its own: its mounts and processes end with it.
isolated() { exec unshare --mount --pid --fork --kill-child --mount-proc "$@"; }

# One build at a time: another run may be building the same image.
exec 9<"$here/image/Dockerfile.postgres"
flock --nonblock 9 || step "waiting for another build to end" flock 9
if present "$own"; then
    echo "$own"
    exit
fi

# A debootstrap may be older than the release. All releases since bookworm are made alike.
script=/usr/share/debootstrap/scripts/$suite
[[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
step "fetching $package and its dependencies, Debian $suite, from $mirror" isolated debootstrap \
    --foreign --variant=minbase --include="$package" "$suite" "$root" "$mirror" "$script"
# The packages must neither start a server nor make a cluster here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
if [[ $name == postgres ]]; then
    mkdir -p "$root/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
fi
step "installing the packages" isolated chroot "$root" /debootstrap/debootstrap --second-stage
mkdir "$dir/context"
if [[ $name == postgres ]]; then
    chroot "$root" install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
    chroot "$root" install -d -o postgres -g postgres -m 2775 /run/postgresql
    cp "$here/image/entrypoint.sh" "$dir/context"
fi
step "packing the file system" tar -C "$root" -cf "$dir/context/root.tar" --one-file-system \
    --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' --exclude='./debootstrap' \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' .
step "building $own" docker build --tag "$own" --build-arg "MAJOR=$major" \
    --file "$here/image/Dockerfile.$name" "$dir/context"
say "$own is ready"
echo "$own"
