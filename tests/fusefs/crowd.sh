#!/bin/bash
# crowd.sh - 200 processes, and readers of everything: the time a `cat stats` takes, attached and stopped, and what it
# costs the daemon: no thread more.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

crowd=${GMLAKE_TEST_CROWD:-200}
reader=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_reader
fast=5000 # microseconds
stopped=50000
if [ -n "${GMLAKE_TEST_SANITIZE:-}" ]; then
    crowd=60
    fast=500000
    stopped=500000
fi
start_daemon
threads()
{
    find "/proc/$(serving_pid)/task" -mindepth 1 -maxdepth 1 | wc -l
}
threads_before=$(threads)

# One input for all of them: they live until it is closed.
mkfifo "$work/crowd.in"
exec {crowd_in}<>"$work/crowd.in"
start=$(date +%s%N)
for _ in $(seq "$crowd"); do
    GMLAKE_SOCKET=$socket "$client_program" <&"$crowd_in" >/dev/null &
    client_pids+=($!)
done
# attached N: so many are.
attached()
{
    grep -qx "processes $1" "$mount/stats"
}
within 20 attached "$crowd" || complain "not all of $crowd appear: $(head -1 "$mount/stats")"
echo "$crowd processes attached in $((($(date +%s%N) - start) / 1000000)) ms"

# measure WHAT LIMIT: the 99th percentile of reading stats, for three seconds; up to three times, for others' sake who
# may use the machine.
measure()
{
    local rounds percentile longest best=1000000
    for _ in 1 2 3; do
        "$reader" anew "$mount/stats" >"$work/measured" 2>"$work/said" &
        client_pids+=($!)
        sleep 3
        kill -TERM $!
        expect_end "$1" $! "$work/said"
        read -r rounds percentile longest <"$work/measured"
        echo "$1: $rounds reads of stats, 99th percentile $percentile us, longest $longest us"
        best=$((percentile < best ? percentile : best))
        [ "$best" -ge "$2" ] || break
    done
    [ "$best" -lt "$2" ]
    expect "$1: the 99th percentile is below $2 us ($best)" 0 $?
}

measure "attached" "$fast"
for pid in "${client_pids[@]}"; do
    kill -STOP "$pid" 2>/dev/null
done
measure "stopped" "$stopped"
last=${client_pids[100 % crowd]}
expect "a stopped one can be tuned" 0 "$(put "$mount/$last/tunables/cut_budget" 5 && echo 0)"

# Everybody reads everything.
readers=()
for _ in $(seq 16); do
    (
        for _ in $(seq 3); do
            cat "$mount/stats" "$mount/metrics" "$mount"/[0-9]*/stats "$mount/$last"/tunables/* >/dev/null || exit 1
        done
    ) &
    readers+=($!)
done
measure "stopped, among 16 readers of all files" $((stopped * 4))
for pid in "${readers[@]}"; do
    wait "$pid"
    expect "a reader in the crowd" 0 $?
done
expect "threads" "$threads_before" "$(threads)"
within 8 grep -qx 'stale 1' "$mount/$last/stats" || complain "a stopped process never becomes stale"

# A daemon that has to take all of them over, stopped as they are, and then going on.
kill -KILL "$(serving_pid)"
expect "after a take-over" "processes $crowd" "$(head -1 "$mount/stats")"
expect "threads of the next one" "$threads_before" "$(threads)"
for pid in "${client_pids[@]}"; do
    kill -CONT "$pid" 2>/dev/null
done
start=$(date +%s%N)
put "$mount/tunables/split_min" 2048
all_back()
{
    [ "$(cat "$mount"/[0-9]*/tunables/.applied | grep -c '^split_min want=2048 now=2048 ')" = "$crowd" ]
}
within 10 all_back || complain "not all come back"
echo "all back after $((($(date +%s%N) - start) / 1000000)) ms"

# They die together.
start=$(date +%s%N)
kill -KILL "${client_pids[@]}" 2>/dev/null
within 5 attached 0 || complain "the crowd stays"
took=$((($(date +%s%N) - start) / 1000000))
echo "all gone after $took ms"
keeper_fds=$(find "/proc/$daemon_pid/fd" -mindepth 1 | wc -l)
[ "$keeper_fds" -le 20 ]
expect "the keeper holds nothing of them ($keeper_fds)" 0 $?
exec {crowd_in}>&-
stop_daemon
finish
