# shellcheck shell=bash disable=SC2034
# lib.sh - what tools/test.sh and tools/demo.sh share: words on the terminal, packages, builds. Sourced, not run.

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)

# Colours on a terminal only.
bold='' dim='' red='' green='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

headline()
{
    printf '\n%s== %s%s\n' "$bold" "$*" "$plain"
}

note()
{
    printf '%s%s%s\n' "$dim" "$*" "$plain"
}

die()
{
    printf '%s%s: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2
    exit 1
}

# as_root COMMAND...: runs it as root, by sudo where needed.
as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root and there is no sudo: $*"
    fi
}

is_installed()
{
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages PACKAGE...: installs the Debian packages that are not there yet. No network is used if all are.
need_packages()
{
    local package missing=()
    if ! command -v dpkg-query >/dev/null; then
        note "not a Debian system: taking for granted what would be installed by apt-get: $*"
        return 0
    fi
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    note "installing: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! as_root env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' apt "${missing[@]}" \
        >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "apt-get could not install: ${missing[*]}"
    fi
    rm -f "$log"
}

# What every build needs.
build_packages=(gcc libc6-dev make cmake pkg-config libfuse3-dev fuse3 zlib1g-dev libcmocka-dev)

# build_preset PRESET [CONFIGURE_ARGUMENT...] [-- BUILD_ARGUMENT...]: the log is shown where it fails.
build_preset()
{
    local preset=$1 log="$root_dir/build/$1.log" configure=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        configure+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    mkdir -p "$root_dir/build"
    if ! (cd "$root_dir" && cmake --preset "$preset" "${configure[@]}" &&
        cmake --build --preset "$preset" --parallel "$jobs" "$@") >"$log" 2>&1; then
        grep -E -A 3 '(error:|CMake Error|undefined reference)' "$log" | head -n 30 >&2
        printf '%sbuild of preset %s failed; all of it is in %s%s\n' "$red" "$preset" "$log" "$plain" >&2
        return 1
    fi
}
