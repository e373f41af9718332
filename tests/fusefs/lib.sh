# lib.sh - what the tests of the mount share: a daemon and clients of its own in a directory of its own, and checks that
# are counted. A test sources it, checks, and ends with `finish`.
# shellcheck shell=bash
set -u
export LC_ALL=C

bin_dir=${GMLAKE_TEST_BIN_DIR:?run this through ctest}
client_program=${GMLAKE_TEST_BUILD_DIR:?run this through ctest}/tests/fusefs_client
work=$(mktemp -d "${TMPDIR:-/tmp}/gmlake-test.XXXXXX")
mount=$work/mount
socket=$work/run/gmlaked.sock
failed=0
checks=0
daemon_pid=
client_pids=()
daemon_options=() # a test adds to them before it starts a daemon

skip()
{
    echo "skipped: $*"
    if [ -n "${GMLAKE_TESTS_FAIL_ON_SKIP:-}" ]; then
        exit 1
    fi
    exit 77
}

complain()
{
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# expect WHAT EXPECTED ACTUAL
expect()
{
    checks=$((checks + 1))
    if [ "$2" != "$3" ]; then
        complain "$1: expected '$2', got '$3'"
    fi
}

# expect_ok WHAT COMMAND...: it succeeds.
expect_ok()
{
    local what=$1 said
    shift
    checks=$((checks + 1))
    if ! said=$("$@" 2>&1); then
        complain "$what: $said"
    fi
}

# expect_error WHAT TEXT COMMAND...: it fails and says TEXT.
expect_error()
{
    local what=$1 text=$2 said
    shift 2
    checks=$((checks + 1))
    if said=$("$@" 2>&1); then
        complain "$what: succeeded, expected '$text'"
    elif [[ $said != *"$text"* ]]; then
        complain "$what: said '$said', expected '$text'"
    fi
}

# expect_end WHAT PID FILE: a process of this shell ends with exit code 0; what it said is in FILE.
expect_end()
{
    local code
    wait "$2"
    code=$?
    expect "$1: $(cat "$3")" 0 "$code"
}

# within SECONDS COMMAND...: it succeeds in that time; tried every 10 ms.
within()
{
    local end
    end=$(($(date +%s%N) + $1 * 1000000000))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$(date +%s%N)" -ge "$end" ]; then
            return 1
        fi
        sleep 0.01
    done
}

is_mounted()
{
    grep -q " $mount fuse" /proc/self/mountinfo || grep -q " $mount .* - fuse" /proc/self/mountinfo
}

# start_daemon: gmlaked on $mount, ready when this returns.
start_daemon()
{
    "$bin_dir/gmlaked" --mountpoint "$mount" --socket "$socket" "${daemon_options[@]}" 2>>"$work/daemon.log" &
    daemon_pid=$!
    if ! within 10 test -e "$mount/version"; then
        cat "$work/daemon.log"
        complain "gmlaked does not come up"
        exit 1
    fi
}

# serving_pid: the process under the keeper that serves; another one after each death.
serving_pid()
{
    pgrep -P "$daemon_pid"
}

# kill_daemon: so that nobody takes over, the keeper as well.
kill_daemon()
{
    local serving
    serving=$(serving_pid)
    kill -KILL "$daemon_pid" "${serving:-$daemon_pid}"
    wait "$daemon_pid" 2>/dev/null
    within 5 test ! -e "/proc/${serving:-$daemon_pid}" # the mount dies with the last of them
    daemon_pid=
}

# stop_daemon: as an operator does; its exit code is checked.
stop_daemon()
{
    local code
    kill -TERM "$daemon_pid"
    wait "$daemon_pid"
    code=$?
    daemon_pid=
    expect "exit code of gmlaked" 0 "$code"
    expect "mounted after the end" no "$(is_mounted && echo yes || echo no)"
}

# start_client NAME: a client that `ask NAME` talks to; its pid is in client_pid.
start_client()
{
    mkfifo "$work/$1.in" "$work/$1.out"
    GMLAKE_SOCKET=$socket "$client_program" <"$work/$1.in" >"$work/$1.out" &
    client_pid=$!
    client_pids+=("$client_pid")
    eval "exec {in_$1}>\"$work/$1.in\" {out_$1}<\"$work/$1.out\""
    if ! within 10 test -e "$mount/$client_pid/stats"; then
        complain "client $1 does not appear"
        exit 1
    fi
}

# say NAME COMMAND...: tells the client something; hear NAME: prints its next answer.
say()
{
    local input="in_$1"
    shift
    echo "$*" >&"${!input}"
}

hear()
{
    local output="out_$1" answer
    read -r -t 10 answer <&"${!output}" && echo "$answer"
}

# ask NAME COMMAND...: what the client answers.
ask()
{
    say "$@"
    hear "$1" || echo "no answer"
}

# put FILE TEXT...: as `echo TEXT > FILE` does, with what a shell says about errors.
put()
{
    local file=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    bash -c 'echo "${@:2}" >"$1"' put "$file" "$@"
}

clean_up()
{
    local pid
    exec 2>/dev/null
    if [ -n "$daemon_pid" ]; then
        kill_daemon
    fi
    for pid in "${client_pids[@]}" $daemon_pid; do
        kill -CONT "$pid"
        kill -KILL "$pid"
    done
    wait
    while is_mounted; do
        umount -l "$mount" || fusermount3 -uz "$mount" || break
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# finish: the verdict. A daemon that died of a sanitizer's finding was replaced by the next one: the log has it.
finish()
{
    if grep -qE '(WARNING|ERROR): [A-Za-z]+Sanitizer|runtime error:' "$work/daemon.log" 2>/dev/null; then
        complain "a sanitizer has found something"
    fi
    if [ "$failed" -gt 0 ]; then
        echo "--- what gmlaked said"
        cat "$work/daemon.log"
        echo "$failed of $checks checks failed"
        exit 1
    fi
    echo "$checks checks"
    exit 0
}

if [ ! -w /dev/fuse ] || ! command -v fusermount3 >/dev/null; then
    skip "no FUSE here: /dev/fuse cannot be opened, or fuse3 is not installed"
fi
