#!/bin/bash
# polling.sh - a thousand open files that are polled, closed and left by processes that end, while events come; a daemon
# that is stopped, killed or ended while they wait.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

pollers=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_pollers
start_daemon
start_client one
one=$client_pid
here=$mount/$client_pid

# begin NAME ARGUMENT...: a poller, waiting when this returns; its pid is in poller.
begin()
{
    local name=$1
    shift
    "$pollers" "$@" >"$work/$name" 2>&1 &
    poller=$!
    client_pids+=("$poller")
    within 20 grep -q waiting "$work/$name" || complain "$name does not wait: $(cat "$work/$name")"
}

descriptors()
{
    find "/proc/$(serving_pid)/fd" -mindepth 1 | wc -l
}

resident()
{
    awk '/^VmRSS/ { print $2 }' "/proc/$(serving_pid)/status"
}

# ended PID: within a second.
ended()
{
    within 1 bash -c "! kill -0 $1 || grep -q '^State:.Z' /proc/$1/status"
}

# --- a storm --------------------------------------------------------------------------------------------------------
before=$(descriptors)
begin storm storm "$here/events" 4
storm=$poller
begin machine storm "$mount/events" 4
for ((i = 0; i < 60; i++)); do
    ask one stat oom "$i" >/dev/null
    sleep 0.05
done
expect_end "a process's events" "$storm" "$work/storm"
expect_end "the machine's events" "$poller" "$work/machine"
expect "descriptors" "$before" "$(descriptors)"
warm=$(resident)
begin storm storm "$here/events" 3
wait "$poller"
if [ -z "${GMLAKE_TEST_SANITIZE:-}" ]; then
    expect "memory does not grow ($warm to $(resident) kB)" 1 "$(($(resident) < warm + 1024))"
fi

# --- who waits can be killed, and so can the daemon -------------------------------------------------------------------
begin waiter wait "$here/events" 1000
first=$poller
kill -STOP "$(serving_pid)"
kill -KILL "$first"
ended "$first"
expect "killed while the daemon is stopped" 0 $?
kill -CONT "$(serving_pid)"
begin waiter wait "$here/events" 1000
kill -KILL "$(serving_pid)"
within 10 cat "$here/stats" || complain "the next daemon does not serve"
expect "who waits goes on when the daemon is killed" 0 "$(kill -0 "$poller"; echo $?)"
kill -KILL "$one"
ended "$poller"
expect "and ends with the process it waits for" 0 $?

# --- the end ----------------------------------------------------------------------------------------------------------
begin waiter wait "$mount/events" 1000
first=$poller
begin other storm "$mount/events" 3
stop_daemon
expect_ok "who waits ends with the mount" ended "$first"
finish
