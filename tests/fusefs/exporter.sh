#!/bin/bash
# exporter.sh - Prometheus' own programs on what gmlaked writes: the node exporter answers whatever becomes of gmlaked.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

for program in prometheus-node-exporter promtool curl; do
    command -v "$program" >/dev/null || skip "no $program (Debian: prometheus-node-exporter prometheus curl)"
done
rules=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}/tools/prometheus
mkdir "$work/text"
daemon_options=(--textfile "$work/text=1")
start_daemon
start_client a
ask a stat reserved 4711 >/dev/null

port=$((20000 + $$ % 20000)) # if it is taken, the exporter says so
# Its file system collector calls statfs() on every mount, FUSE or not: gmlaked(8) tells to leave ours out.
prometheus-node-exporter --collector.filesystem.fs-types-exclude '^fuse\.gmlake$' \
    --collector.textfile.directory "$work/text" --web.listen-address "127.0.0.1:$port" \
    >"$work/exporter.log" 2>&1 &
client_pids+=($!) # so that it ends with the test

scrape()
{
    curl -sf --max-time 1 "http://127.0.0.1:$port/metrics" >"$work/scrape"
}
scrape_has()
{
    scrape && grep -q "$1" "$work/scrape"
}

within 10 scrape || complain "the exporter does not come up: $(cat "$work/exporter.log")"
within 10 scrape_has '^gmlake_process_reserved_bytes{.*} 4711$' || complain "the figures do not reach the exporter"
expect "errors of the text file collector" "node_textfile_scrape_error 0" "$(grep '^node_textfile_scrape_error' "$work/scrape")"
expect_ok "promtool, the mount" bash -c "cat '$mount/metrics' | promtool check metrics"
expect_ok "promtool, the file" bash -c "promtool check metrics <'$work/text/gmlake.prom'"

# A stopped daemon answers nobody who looks into the mount; the exporter looks at a plain file.
# shellcheck disable=SC2046 # a number or nothing
kill -STOP $(serving_pid) "$daemon_pid"
sleep 3
expect_ok "a scrape within a second beside a stopped gmlaked" scrape
expect "gmlake's last figures stay" 1 "$(grep -c '^gmlake_process_reserved_bytes{.*} 4711$' "$work/scrape")"
expect "other figures are there" 1 "$(grep -c '^node_load1 ' "$work/scrape")"
modified=$(sed -n 's/^node_textfile_mtime_seconds{file=".*gmlake.prom"} //p' "$work/scrape")
age=$(awk -v now="$(date +%s)" -v then="${modified:-0}" 'BEGIN { printf "%d", now - then }')
if [ "$age" -lt 2 ] || [ "$age" -gt 60 ]; then
    complain "the file's age does not show that gmlaked is stopped: $age s"
fi
# shellcheck disable=SC2046
kill -CONT $(serving_pid) "$daemon_pid"

expect_ok "the alerts" promtool check rules "$rules/gmlake.rules.yml"
expect_ok "each alert fires on what it is for" promtool test rules "$rules/gmlake.rules.test.yml"
put "$mount/$client_pid/tunables/memory_max" 1G
while read -r name; do
    within 5 grep -q "^# TYPE $name " "$mount/metrics" || complain "an alert needs $name, which does not exist"
done < <(grep -o 'gmlake_[a-z_]*' "$rules/gmlake.rules.yml" | sort -u)
stop_daemon
finish
