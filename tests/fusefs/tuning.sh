#!/bin/bash
# tuning.sh - live tuning: what is written to the mount is in force in the very next allocation of a process that
# allocates as fast as it can (tuning.c).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_tuning
export SIMCUDA_MEMORY=4G GMLAKE_SOCKET=$socket MOUNT=$mount
start_daemon
said=$(LD_LIBRARY_PATH=$bin_dir/../lib:$bin_dir/../lib/simcuda timeout 60 "$program" values 300)
expect "values: $said" 0 $?
echo "values: $said"
if [ -z "${GMLAKE_TEST_SANITIZE:-}" ]; then # whose runtime wants to be loaded first itself
    said=$(timeout 60 "$bin_dir/gmlake" run --sim -- "$program" effect 2000)
    expect "effect: $said" 0 $?
    echo "effect: $said"
fi
stop_daemon
finish
