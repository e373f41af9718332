#!/bin/bash
# takeover.sh - kill -9 of the serving gmlaked, again and again (GMLAKE_TEST_KILLS times, 100 if not said), under 9
# readers and 4 processes that allocate: no read fails, no allocation fails, every process is back within 2 seconds and
# is the same in the mount as before.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

kills=${GMLAKE_TEST_KILLS:-100}
back_ms=2000
if [ -n "${GMLAKE_TEST_SANITIZE:-}" ]; then # which makes the start of a daemon many times as long
    kills=${GMLAKE_TEST_KILLS:-20}
    back_ms=10000
fi
reader=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_reader
start_daemon

# --- who is there ------------------------------------------------------------------------------------------------
loads=()
for i in 1 2 3 4; do
    ASAN_OPTIONS=detect_leaks=0 GMLAKE_SOCKET=$socket "$bin_dir/gmlake" run --sim -- "$GMLAKE_TEST_BUILD_DIR/tests/fusefs_load" \
        >"$work/load$i.out" 2>"$work/load$i.err" &
    loads+=($!)
    client_pids+=($!)
done
for pid in "${loads[@]}"; do
    within 10 grep -qE '^allocs [1-9]' "$mount/$pid/stats" || complain "process $pid does not appear"
done
start_client stopped
stopped=$client_pid
ask stopped stat reserved 4711 >/dev/null
within 5 grep -q '^reserved 4711$' "$mount/$stopped/stats" || complain "the figures do not arrive"
kill -STOP "$stopped"
put "$mount/tunables/cut_min" 8M

one=$mount/${loads[0]}
two=$mount/${loads[1]}
readers=()
read_on()
{
    local name=reader${#readers[@]}
    "$reader" "$@" >"$work/$name.out" 2>"$work/$name.err" &
    readers+=($!)
    client_pids+=($!)
}
read_on anew "$mount/stats" "$mount/metrics" "$mount/version"
read_on anew "$one/stats" "$two/pools" "$one/tunables/cut_min" "$two/tunables/.applied" "$mount/$stopped/stats"
read_on anew "$one/map" "$two/current" "$two/peak" # the first is the process's to answer
read_on held "$mount/stats"
read_on held "$two/stats"
read_on slow "$mount/metrics"
read_on list "$mount"
read_on list "$one"
read_on write "$one/tunables/split_min" 1024

serials()
{
    local pid
    for pid in "${loads[@]}" "$stopped"; do
        cat "$mount/$pid/serial"
        stat -c %i "$mount/$pid/tunables"
    done
}

# in_force PID VALUE: the process works with what was set: it has the new daemon's page.
in_force()
{
    grep -q "^cut_budget want=$2 now=$2 " "$mount/$1/tunables/.applied"
}

exec {held}<"$one/stats"
serials_before=$(serials)
slowest=0
previous=0

# --- the kills -----------------------------------------------------------------------------------------------------
for round in $(seq "$kills"); do
    pid=$(serving_pid)
    [ "$pid" != "$previous" ] || complain "round $round: the same process as before"
    previous=$pid
    kill -KILL "$pid"
    if [ $((round % 10)) = 0 ]; then # the next one while it comes up
        sleep 0.0$((RANDOM % 10))
        # shellcheck disable=SC2046 # a number or nothing
        kill -KILL $(serving_pid) 2>/dev/null
    fi
    start=$(date +%s%N)
    value=$((1000 + round))
    for load in "${loads[@]}"; do
        put "$mount/$load/tunables/cut_budget" $value || complain "round $round: cannot set"
    done
    for load in "${loads[@]}"; do
        within 5 in_force "$load" $value || complain "round $round: process $load is not back"
    done
    took=$((($(date +%s%N) - start) / 1000000))
    slowest=$((took > slowest ? took : slowest))
    for pid in "${loads[@]}" "${readers[@]}"; do
        kill -0 "$pid" 2>/dev/null || complain "round $round: process $pid has ended"
    done
    [ "$failed" -lt 10 ] || break
done

# --- afterwards ------------------------------------------------------------------------------------------------------
[ "$slowest" -le "$back_ms" ]
expect "every process is back within $back_ms ms (took $slowest)" 0 $?
expect "the same registrations, the same inodes" "$serials_before" "$(serials)"
expect_ok "a file that was open all the time" grep -q '^reserved ' <&"$held"
expect "a machine-wide value" 8388608 "$(cat "$mount/tunables/cut_min")"
expect "the figures of one who is stopped" "reserved 4711" "$(grep '^reserved ' "$mount/$stopped/stats")"
expect "its state" stopped "$(cat "$mount/$stopped/state")"
expect "processes" "processes 5" "$(head -1 "$mount/stats")"
kill -CONT "$stopped"
put "$mount/$stopped/tunables/cut_budget" 77
within 5 in_force "$stopped" 77 || complain "the one that was stopped is not back"
expect "and works with that" 77 "$(ask stopped tunable cut_budget)"
for i in "${!readers[@]}"; do
    kill -TERM "${readers[$i]}"
    expect_end "reader $i" "${readers[$i]}" "$work/reader$i.err"
    echo "reader $i: rounds, 99th percentile and longest in us: $(cat "$work/reader$i.out")"
done
for i in 1 2 3 4; do
    kill -TERM "${loads[$((i - 1))]}"
    expect_end "allocations of process $i" "${loads[$((i - 1))]}" "$work/load$i.err"
    echo "process $i: allocations $(cat "$work/load$i.out")"
done
echo "$kills kills, slowest return $slowest ms"
kill -KILL "$stopped"
within 5 grep -q '^processes 0$' "$mount/stats" || complain "somebody stays"
expect "mounts are not piled up" 1 "$(grep -c " $mount " /proc/self/mountinfo)"
keeper_fds=$(find "/proc/$daemon_pid/fd" -mindepth 1 | wc -l)
[ "$keeper_fds" -le 20 ]
expect "the keeper holds nothing of processes that are gone ($keeper_fds)" 0 $?
stop_daemon
finish
