#!/bin/bash
# acting.sh - what the mount makes a running process do: keep within max and high, give memory back, describe its blocks,
# record its allocations; and how it answers when the process cannot.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

M=1048576
export SIMCUDA_MEMORY=1G
start_daemon
client_program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_program
start_client one
here=$mount/$client_pid
one=$client_pid

# figure FILE: a number that a file has.
figure()
{
    cat "$here/$1"
}

# comes_to FILE OPERATOR NUMBER: within five seconds.
comes_to()
{
    within 5 test_figure "$@" || complain "$1 is $(figure "$1"), not $2 $3"
    checks=$((checks + 1))
}

test_figure()
{
    test "$(figure "$1")" "$2" "$3"
}

# halt PID: stops it, all its threads.
halt()
{
    kill -STOP "$1"
    within 5 grep -q stopped "$mount/$1/state"
    sleep 0.2
}

# milliseconds COMMAND...: how long it takes.
milliseconds()
{
    local start
    start=$(date +%s%N)
    "$@" >/dev/null 2>&1
    echo $((($(date +%s%N) - start) / 1000000))
}

# --- current and peak ------------------------------------------------------------------------------------------------
expect "at first" 0 "$(figure current)"
expect "no limit" "max max" "$(figure high) $(figure max)"
ask one alloc $((100 * M)) >/dev/null
comes_to current -eq $((100 * M))
b=$(ask one alloc $((200 * M)))
expect "freed" ok "$(ask one free "$b")"
comes_to peak -eq $((300 * M))
exec {first}<>"$here/peak" {second}<>"$here/peak"
echo x >&"$first"
expect "reset for this file: what is held now" $((300 * M)) "$(cat <"/proc/$$/fd/$first")"
python=$(command -v python3)
if [ -n "$python" ]; then
    # The watermark belongs to the open file, so one program has to do it all.
    cat >"$work/peaks.py" <<'END'
import os, sys, time
path, control, answers = sys.argv[1], open(sys.argv[2], "w", buffering=1), open(sys.argv[3])
def value(fd):
    return int(os.pread(fd, 100, 0))
def settle(fd, expected):
    for _ in range(500):
        if value(fd) == expected:
            return
        time.sleep(0.01)
    print("peak is", value(fd), "not", expected)
def ask(command):
    control.write(command + "\n")
    return answers.readline().strip()
M = 1 << 20
untouched = os.open(path, os.O_RDONLY)
early = os.open(path, os.O_RDWR)
os.write(early, b"0\n")
late = os.open(path, os.O_RDWR)
held = value(early)
block = ask("alloc %d" % (350 * M))
settle(early, 450 * M)
assert ask("free " + block) == "ok"
# What is idle goes, so that a reset shows less than before.
os.write(os.open(os.path.dirname(path) + "/reclaim", os.O_WRONLY), b"max")
os.write(late, b"reset")
settle(late, 100 * M)
if value(early) != 450 * M: print("another's reset changed this peak to", value(early))
if value(untouched) != 450 * M: print("a reset changed the peak since the start to", value(untouched))
block = ask("alloc %d" % (150 * M))
settle(late, 250 * M)
if value(early) != 450 * M: print("a lower peak changed a higher one to", value(early))
os.write(early, b"\n")
settle(early, 250 * M)
assert ask("free " + block) == "ok"
END
    mkfifo "$work/two.in" "$work/two.out"
    GMLAKE_SOCKET=$socket "$client_program" <"$work/two.in" >"$work/two.out" &
    two=$!
    client_pids+=("$two")
    exec {two_in}>"$work/two.in" {two_out}<"$work/two.out"
    within 10 test -e "$mount/$two/peak" || complain "the second program does not appear"
    echo "alloc $((100 * M))" >&"$two_in"
    read -r -u "$two_out" _
    within 5 grep -qx $((100 * M)) "$mount/$two/peak" || complain "the second program's peak is $(cat "$mount/$two/peak")"
    expect "peaks of open files" "" "$("$python" "$work/peaks.py" "$mount/$two/peak" "$work/two.in" "$work/two.out" 2>&1)"
    exec {two_in}>&- {two_out}<&-
    kill "$two" 2>/dev/null
fi
exec {first}<&- {second}<&-

# --- reclaim -----------------------------------------------------------------------------------------------------------
expect_ok "an amount" put "$here/reclaim" 50M
comes_to current -le $((250 * M))
expect "what is in use stays" $((100 * M)) "$(($(ask one reserved) < 100 * M ? 0 : 100 * M))"
expect_ok "all" put "$here/reclaim" max
comes_to current -eq $((100 * M))
expect_error "more than there is" "Resource temporarily unavailable" put "$here/reclaim" 1G
expect_ok "nothing" put "$here/reclaim" 0
expect_error "no amount" "Invalid argument" put "$here/reclaim" much
expect_error "too many bits" "Numerical result out of range" put "$here/reclaim" 99999999999T
expect_error "not to be read" "Permission denied" cat "$here/reclaim"
within 5 grep -q "^reclaimed $((200 * M))$" "$here/stats" || complain "reclaimed is $(grep reclaimed "$here/stats")"
# Frees that only a synchronisation tells of.
b=$(ask one alloc $((40 * M)))
ask one sync "$b" >/dev/null
comes_to current -eq $((140 * M))
expect_ok "frees that are owed a synchronisation" put "$here/reclaim" 40M
comes_to current -eq $((100 * M))

# --- max ---------------------------------------------------------------------------------------------------------------
expect_ok "max" put "$here/max" 256M
expect "it reads back" $((256 * M)) "$(figure max)"
expect "it is the tunable of that name" $((256 * M)) "$(figure tunables/memory_max)"
expect "beyond it" ENOMEM "$(ask one alloc $((200 * M)))"
b=$(ask one alloc $((150 * M)))
expect "within it" 1 "$(($(ask one reserved) <= 256 * M))"
ask one free "$b" >/dev/null
start=$(date +%s%N)
expect_ok "lowered below what is held" put "$here/max" 128M
comes_to current -le $((128 * M))
took=$((($(date +%s%N) - start) / 1000000))
expect "an idle process obeys within 2 s (took $took ms)" 1 "$((took < 2000))"
expect "no growth" ENOMEM "$(ask one alloc $((60 * M)))"
within 5 grep -q "^max_events [1-9]" "$here/stats" || complain "max_events is not counted"
expect_ok "below what is live" put "$here/max" 10M
comes_to current -eq $((100 * M))
expect "live memory stays, and nothing is added" ENOMEM "$(ask one alloc $((20 * M)))"
expect_ok "for the machine" put "$mount/tunables/memory_max" 512M
expect "its own wins" $((10 * M)) "$(figure max)"
expect_ok "let go" put "$here/max" default
expect "the machine's" $((512 * M)) "$(figure max)"
expect "is in force" ENOMEM "$(ask one alloc $((600 * M)))"
expect_ok "the machine lets go" put "$mount/tunables/memory_max" default
expect "none again" max "$(figure max)"
expect_error "no limit of that kind" "Invalid argument" put "$here/max" lots

# --- high ----------------------------------------------------------------------------------------------------------------
b=$(ask one alloc $((300 * M)))
ask one free "$b" >/dev/null
comes_to current -ge $((300 * M))
expect_ok "high" put "$here/high" 200M
comes_to current -le $((200 * M))
b=$(ask one alloc $((300 * M)))
expect "nobody is refused" 1 "$((b >= 0))"
comes_to current -ge $((400 * M))
within 5 grep -q "^high_events [1-9]" "$here/stats" || complain "high_events is not counted"
ask one free "$b" >/dev/null
comes_to current -le $((200 * M)) # what crossed it goes as soon as it is idle
expect_ok "no high" put "$here/high" max

# --- the tunables that bound what is kept, in an idle process ------------------------------------------------------------
ask one free "$(ask one alloc $((300 * M)))" >/dev/null
comes_to current -ge $((300 * M))
expect_ok "release_threshold" put "$here/tunables/release_threshold" 16M
comes_to current -le $((116 * M))
expect_ok "release_threshold" put "$here/tunables/release_threshold" default

# --- map -----------------------------------------------------------------------------------------------------------------
small=$(ask one alloc 700)
expect "a line of the map" 1 "$(grep -cE "^0x[0-9a-f]+ $((100 * M)) live 0:primitive [0-9]+ $((100 * M)) [0-9]+$" "$here/map")"
expect "a small one" 1 "$(grep -cE "^0x[0-9a-f]+ 1024 live 0:primitive [0-9]+ 700 1$" "$here/map")"
expect "every line has its columns" 0 "$(grep -cvE '^0x[0-9a-f]+ [0-9]+ (live|free) 0:(primitive|stitched) [0-9]+ [0-9]+ [0-9]+$' "$here/map")"
expect "one moment" 1 "$(cut -d' ' -f5 "$here/map" | sort -u | wc -l)"
expect "live sizes add up" $((100 * M + 1024)) "$(awk '$3 == "live" { sum += $2 } END { print sum }' "$here/map")"
expect "the same in small pieces" "$(cat "$here/map")" "$(dd if="$here/map" bs=17 status=none)"
for _ in $(seq 3000); do
    say one alloc 3000000
    hear one >/dev/null
done
expect "a long map" 1 "$(($(wc -l <"$here/map") > 200))"
dd if="$here/map" bs=4096 status=none >"$work/map"
expect "a long map in pieces" 0 "$(grep -cvE '^0x[0-9a-f]+ [0-9]+ (live|free) 0:(primitive|stitched) [0-9]+ [0-9]+ [0-9]+$' "$work/map")"
say one churn 2
for _ in $(seq 20); do
    expect_ok "the map of a process at work" cat "$here/map"
done
hear one >/dev/null

# --- a process that cannot answer ------------------------------------------------------------------------------------------
ask one free "$small" >/dev/null
halt "$one"
(
    exec 2>/dev/null
    for _ in $(seq 20); do
        milliseconds cat "$mount/stats" "$here/stats"
    done | sort -n | tail -1
) >"$work/slowest" &
reader=$!
took=$(milliseconds put "$here/reclaim" 1M)
expect "reclaim of a stopped process takes a second (took $took ms)" 1 "$((took >= 800 && took < 2500))"
wait "$reader"
expect "meanwhile nobody else waits (slowest $(cat "$work/slowest") ms)" 1 "$(($(cat "$work/slowest") < 500))"
expect_error "reclaim" "Resource temporarily unavailable" put "$here/reclaim" 1M
expect_error "map" "Resource temporarily unavailable" cat "$here/map"
expect_error "peak" "Resource temporarily unavailable" put "$here/peak" 0
expect_error "trace" "Resource temporarily unavailable" put "$here/trace" on
expect_ok "max can be set all the same" put "$here/max" 300M
expect "and its figures are there" $((300 * M)) "$(figure max)"
# The kernel lets writers of one file in one by one; who comes after one that waited in vain does not wait again.
kill -CONT "$one"
within 5 cat "$here/map" || complain "a process that is awake for a moment is not asked again"
halt "$one"
waiters=()
for _ in $(seq 24); do
    put "$here/reclaim" 1M 2>/dev/null &
    waiters+=($!)
done
start=$(date +%s%N)
wait "${waiters[@]}"
took=$((($(date +%s%N) - start) / 1000000))
expect "two dozen writers end together (took $took ms)" 1 "$((took < 2500))"
kill -CONT "$one"
within 5 cat "$here/map" || complain "a process that is awake again is not asked again"
expect "it has not done afterwards what nobody waits for" off "$(cut -d' ' -f1 "$here/trace")"
expect_ok "no max" put "$here/max" default

halt "$one"
( sleep 0.3; kill -KILL "$one" ) &
expect_error "the process goes meanwhile" "No such process" put "$here/reclaim" max
wait "$!"

# --- a daemon that ends while somebody waits ---------------------------------------------------------------------------------
client_pids=()
start_client three
here=$mount/$client_pid
halt "$client_pid"
put "$here/reclaim" max 2>/dev/null &
waiter=$!
sleep 0.2
stop_daemon
expect "who waited has had an answer" 1 "$(wait "$waiter" 2>/dev/null; [ $? -ne 127 ] && echo 1)"
kill -KILL "$client_pid"
finish
