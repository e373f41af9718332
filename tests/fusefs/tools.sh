#!/bin/bash
# tools.sh - every tool on every file of the tree, while a process works underneath: what is read is whole and of one
# moment, what is written has the value or the error it should (tools.py).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip "python3 is not installed"
export SIMCUDA_MEMORY=4G
start_daemon
client_program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_program
start_client one
say one churn 600 2000
within 5 test -e "$mount/gpu/0" || complain "the GPU does not appear"
# shellcheck disable=SC2154 # set by start_client
said=$("$GMLAKE_TEST_BUILD_DIR/tests/fusefs_nodes" | timeout 100 python3 "$(dirname "$0")/tools.py" "$mount" "$client_pid" "$work" 2>&1)
expect "tools" "" "$(grep -v '^note: ' <<<"$said")"
grep '^note: ' <<<"$said"
kill -KILL "$client_pid"
stop_daemon
finish
