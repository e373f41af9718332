#!/bin/bash
# metrics.sh - the exposition is well formed whatever processes call themselves, in the mount and as a plain file.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

mkdir "$work/text"
daemon_options=(--textfile "$work/text=1")
start_daemon
expect_ok "the file is there at once" test -s "$work/text/gmlake.prom"
names=('quote"end' 'back\\slash' 'new\nline' 'bad\xffbyte' '{a="b"} 1' plain)
for i in "${!names[@]}"; do
    start_client "c$i"
    ask "c$i" name "${names[$i]}" >/dev/null
    ask "c$i" stat reserved "$((i + 1))000" >/dev/null
    ask "c$i" stat driver_ns 1500000001 >/dev/null
    ask "c$i" stat allocs 7 >/dev/null
done
ask c0 stat reserved@1 99 >/dev/null
within 5 grep -q 'gmlake_process_reserved_bytes.*gpu="1"} 99$' "$mount/metrics" || complain "the figures do not arrive"
all_arrived()
{
    [ "$(grep -c '^gmlake_process_allocs_total{.*} 7$' "$mount/metrics")" = ${#names[@]} ]
}
within 5 all_arrived || complain "not all figures arrive"
cat "$mount/metrics" >"$work/metrics"

expect "series of reserved" 7 "$(grep -c '^gmlake_process_reserved_bytes{' "$work/metrics")"
expect "a quote" 1 "$(grep -c 'comm="quote\\"end",gpu="0"} 1000$' "$work/metrics")"
expect "a backslash" 1 "$(grep -c 'comm="back\\\\slash",gpu="0"} 2000$' "$work/metrics")"
expect "a newline" 1 "$(grep -c 'comm="new?line",gpu="0"} 3000$' "$work/metrics")"
expect "a byte that is no UTF-8" 1 "$(grep -c 'comm="bad?byte",gpu="0"} 4000$' "$work/metrics")"
expect "nanoseconds become seconds" 6 "$(grep -c '^gmlake_process_driver_seconds_total{.*gpu="0"} 1.500000001$' "$work/metrics")"
expect "counters say so" 6 "$(grep -c '^gmlake_process_allocs_total{.*gpu="0"} 7$' "$work/metrics")"
expect "a device is the sum of its processes" 21000 \
    "$(sed -n 's/^gmlake_device_reserved_bytes{gpu="0",UUID="GPU-a0[a0-]*"} //p' "$work/metrics")"
expect "processes on a device" 6 "$(sed -n 's/^gmlake_device_processes{gpu="0".*} //p' "$work/metrics")"
expect "high marks have no sum" "" "$(grep '^gmlake_device_reserved_peak' "$work/metrics")"
expect "no limit, no series" "" "$(grep '^gmlake_process_limit_bytes{' "$work/metrics")"
put "$mount/${client_pids[0]}/tunables/memory_max" 1G
within 5 grep -q "^gmlake_process_limit_bytes{pid=\"${client_pids[0]}\".*} 1073741824\$" "$mount/metrics" ||
    complain "a limit does not appear"
expect "help and type once a family" "" "$(grep '^# ' "$work/metrics" | awk '{ print $2, $3 }' | sort | uniq -d)"
expect "families are not torn" "" \
    "$(grep -v '^#' "$work/metrics" | sed 's/[{ ].*//' | uniq | sort | uniq -d)"
expect "no series twice" "" "$(grep -v '^#' "$work/metrics" | sed 's/ [^ ]*$//' | sort | uniq -d)"
expect "every family has help and type" "$(grep -v '^#' "$work/metrics" | sed 's/[{ ].*//' | uniq)" \
    "$(grep '^# TYPE' "$work/metrics" | awk '{ print $3 }')"
# name{label="value",...} number, nothing else: no timestamps, no carriage returns, a newline at the end.
expect "lines of any other form" "" \
    "$(grep -v '^#' "$work/metrics" | grep -vE '^[a-z_]+(\{([A-Za-z_]+="([^"\\]|\\.)*",?)+\})? [0-9.]+$')"
expect "ends in a newline" "" "$(tail -c 1 "$work/metrics")"

within 5 grep -q ' 6000$' "$work/text/gmlake.prom" || complain "the plain file does not follow"
expect "the plain file may be read by everybody" 644 "$(stat -c %a "$work/text/gmlake.prom")"
expect "nothing else is there" gmlake.prom "$(ls -A "$work/text")"
for pid in "${client_pids[@]}"; do
    kill -KILL "$pid"
done
within 5 bash -c "! grep -q pid= '$work/text/gmlake.prom'" || complain "series of dead processes stay"

if command -v promtool >/dev/null; then
    expect_ok "promtool" promtool check metrics <"$work/metrics"
    expect_ok "promtool, nobody attached" promtool check metrics <"$work/text/gmlake.prom"
else
    echo "note: promtool is not installed (Debian: prometheus); its check is left out"
fi
stop_daemon
expect "the plain file goes with the daemon" "" "$(ls -A "$work/text")"

# Two of five have series of their own: those that hold most. The rest is one.
daemon_options=(--processes 2)
client_pids=()
start_daemon
for i in 1 2 3 4 5; do
    start_client "k$i"
    ask "k$i" stat reserved "${i}00" >/dev/null
done
summed()
{
    grep -q '^gmlake_process_reserved_bytes{pid="other",comm="",gpu="0"} 600$' "$mount/metrics"
}
within 5 summed || complain "the others are not summed: $(grep '^gmlake_process_reserved_bytes' "$mount/metrics")"
expect "series of those that hold most" "400 500" \
    "$(sed -n 's/^gmlake_process_reserved_bytes{pid="[0-9].*} //p' "$mount/metrics" | sort -n | xargs)"
expect "their sum is the device's" 1500 "$(sed -n 's/^gmlake_device_reserved_bytes{.*} //p' "$mount/metrics")"
stop_daemon
finish
