#!/bin/bash
# reading.sh - every tool reads every file whole, in pieces of every size, and sees one moment however slowly it reads.
# shellcheck disable=SC2002 # cat is one of the tools that are tried
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

start_daemon
start_client one
expect "a figure is taken" ok "$(ask one stat reserved 1048576)"
ask one stat requested 1000000 >/dev/null
ask one stat reserved@1 4096 >/dev/null
within 5 grep -q '^reserved 1052672$' "$mount/$client_pid/stats" || complain "the figures do not arrive"
here=$mount/$client_pid

# --- what is there ------------------------------------------------------------------------------------------------
expect "the root" "$client_pid events gpu metrics self stats tunables version" \
    "$(find "$mount" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')"
expect "a process" "comm container current events high map max peak pools reclaim serial start_time state stats trace trace_pipe tunables uid" \
    "$(find "$here" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')"
expect "its tunables are those of the table" "$(find "$mount/tunables" -type f -printf '%f\n' | sort)" \
    "$(find "$here/tunables" -type f -name '[a-z]*' -printf '%f\n' | sort)"
expect "size, mode" "0 444 0 644" "$(stat -c '%s %a' "$here/stats" "$here/tunables/cut_min" | tr '\n' ' ' | sed 's/ $//')"
expect "no such process" "No such file or directory" "$(stat "$mount/1" 2>&1 | sed 's/.*: //')"
expect "no such name" "No such file or directory" "$(cat "$here/nothing" 2>&1 | sed 's/.*: //')"
expect "leading zero is no pid" "No such file or directory" "$(stat "$mount/0$client_pid" 2>&1 | sed 's/.*: //')"

# --- contents -----------------------------------------------------------------------------------------------------
expect "version" "gmlake 0.1.0 abi 1" "$(cat "$mount/version")"
expect "comm" fusefs_client "$(cat "$here/comm")"
expect "uid" "$(id -u)" "$(cat "$here/uid")"
expect "start_time" "$(awk '{ print $22 }' "/proc/$client_pid/stat")" "$(cat "$here/start_time")"
expect "state" running "$(cat "$here/state")"
expect "machine" "processes 1 devices 2" "$(head -2 "$mount/stats" | tr '\n' ' ' | sed 's/ $//')"
expect "first keys" "age_us stale generation requested" "$(awk '{ print $1 }' "$here/stats" | head -4 | tr '\n' ' ' | sed 's/ $//')"
expect "sum over processes" "reserved 1052672" "$(grep '^reserved ' "$mount/stats")"
expect "pools" "0:primitive 0:stitched 1:primitive 1:stitched" "$(awk '{ print $1 }' "$here/pools" | tr '\n' ' ' | sed 's/ $//')"
expect "container" "$(grep -oE '[0-9a-f]{64}' "/proc/$client_pid/cgroup" | tail -1)" "$(cat "$here/container")"
expect "GPUs" "0 1" "$(cd "$mount/gpu" && echo *)"
expect "a GPU" "allocated capacity largest_free procs reserved stats uuid" "$(cd "$mount/gpu/0" && echo *)"
expect "its figures" "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 $((80 << 30)) 4096 0 0 $client_pid" \
    "$(cd "$mount/gpu/1" && cat uuid capacity reserved allocated largest_free procs | xargs)"
expect "the same in stats" "processes 1 capacity $((80 << 30)) reserved 4096" \
    "$(grep -E '^(processes|capacity|reserved) ' "$mount/gpu/1/stats" | xargs)"
expect "high marks have no sum" "" "$(grep peak "$mount/gpu/1/stats")"
expect "links" 4 "$(stat -c %h "$mount/gpu")"
expect "no such GPU" "No such file or directory" "$(cat "$mount/gpu/2/uuid" 2>&1 | sed 's/.*: //')"
expect "a file system without a size of its own" "0 0" "$(stat -f -c '%b %f' "$mount")"
expect "not stale" "stale 0" "$(grep '^stale' "$here/stats")"
# shellcheck disable=SC2016 # expanded by the inner shell
expect "self is the caller" 1 "$(bash -c 'echo $$; exec readlink "$1/self"' x "$mount" | uniq | wc -l)"
expect "self of an attached process, from another thread" fusefs_client "$(ask one cat "$mount/self/comm")"
expect "self of others leads nowhere" "No such file or directory" "$(cat "$mount/self/comm" 2>&1 | sed 's/.*: //')"

# --- tools --------------------------------------------------------------------------------------------------------
same()
{
    expect "$1 reads $(basename "$2")" "$(cat "$2" | grep -v '^age_us\|^generation')" "$(grep -v '^age_us\|^generation' <<<"$3")"
}
for file in "$mount/metrics" "$mount/stats" "$here/stats" "$here/tunables/.applied"; do
    for size in 1 16 4096 100000; do
        same "dd bs=$size" "$file" "$(dd if="$file" bs=$size status=none)"
    done
    cp "$file" "$work/copy" || complain "cp fails"
    same cp "$file" "$(cat "$work/copy")"
    same "grep" "$file" "$(grep . "$file")"
    same "head" "$file" "$(head -c 1000000 "$file")"
    same "sed" "$file" "$(sed -n p "$file")"
    same "tail" "$file" "$(tail -n +1 "$file")"
    same "awk" "$file" "$(awk 1 "$file")"
    same "the shell" "$file" "$(<"$file")"
    expect "tail -n 1 of $(basename "$file")" "$(cat "$file" | tail -n 1)" "$(tail -n 1 "$file")"
    expect "wc of $(basename "$file")" "$(cat "$file" | wc -l)" "$(wc -l <"$file")"
done
expect "reading past the end" "" "$(dd if="$mount/version" bs=1 skip=1000 status=none)"
expect "a read that starts in the middle" "0.1.0 abi 1" "$(dd if="$mount/version" bs=1 skip=7 status=none)"
if command -v python3 >/dev/null; then
    for file in "$mount/metrics" "$here/pools"; do
        same "python read()" "$file" "$(python3 -c 'import sys; print(open(sys.argv[1]).read(), end="")' "$file")"
        same "python lines" "$file" "$(python3 -c 'import sys; [print(l, end="") for l in open(sys.argv[1])]' "$file")"
    done
    expect "a held descriptor sees what is new at offset 0" "1 2 3" "$(python3 - "$here/stats" "$work/one.in" <<'END'
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
client = open(sys.argv[2], "w")
seen = []
for value in (1, 2, 3):
    client.write(f"stat frees {value}\n")
    client.flush()
    end = time.time() + 5
    while time.time() < end and b"\nfrees %d\n" % value not in os.pread(fd, 100000, 0):
        time.sleep(0.01)
    seen.append([l.split()[1].decode() for l in os.pread(fd, 100000, 0).splitlines() if l.startswith(b"frees ")][0])
print(*seen)
END
    )"
    for _ in 1 2 3; do
        hear one >/dev/null
    done
else
    echo "note: python3 is not installed; its reads are left out"
fi

# --- one moment ---------------------------------------------------------------------------------------------------
# Two figures are always set to the same number; read byte by byte while they change, they must agree.
for ((i = 0; i < 100000; i++)); do
    say one "stat allocs $i"
    say one "stat driver_calls $i"
done &
writer=$!
while hear one; do :; done >/dev/null &
drain=$!
for _ in 1 2 3 4 5; do
    dd if="$here/stats" bs=1 status=none >"$work/slow"
    expect "one generation in a slow read" 1 "$(grep -c '^generation ' "$work/slow")"
    expect "every key once" "" "$(awk '{ print $1 }' "$work/slow" | sort | uniq -d)"
    first=$(awk '/^allocs /{ print $2 }' "$work/slow")
    second=$(awk '/^driver_calls /{ print $2 }' "$work/slow")
    [ $((first - second)) -le 1 ] && [ $((first - second)) -ge 0 ]
    expect "figures of one moment ($first, $second)" 0 $?
done
kill "$writer" "$drain" 2>/dev/null
wait "$writer" "$drain" 2>/dev/null
stop_daemon
finish
