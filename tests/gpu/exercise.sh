#!/bin/bash
# exercise.sh - the programs that the preload library is tested with on the simulated driver (tests/preload), on the
# machine's own: every scenario through the doors that programs use, without and with the library. What they print is the
# same, but for lines that begin with "driver:".
set -u -o pipefail

preload=${GMLAKE_TEST_LIB_DIR:?run this through ctest}/libgmlake_preload.so
programs=${GMLAKE_TEST_BUILD_DIR:?run this through ctest}/tests/preload/programs
source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
if [ ! -e /dev/nvidia0 ]; then
    echo "skipped: no /dev/nvidia0"
    exit 77
fi
export PLUGIN=$programs/libplugin.so
gpus=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
compared=0

# run PRELOAD PROGRAM DOOR SCENARIO: its output without the counts, and its exit code.
run()
{
    LD_PRELOAD=$1 timeout 120 "$2" "$3" "$4" 2>"$scratch/errors" | grep -v '^driver:'
    echo "exit ${PIPESTATUS[0]}"
}

compare()
{
    run "" "$@" >"$scratch/bare"
    run "$preload" "$@" >"$scratch/preloaded"
    compared=$((compared + 1))
    if ! diff "$scratch/bare" "$scratch/preloaded" >"$scratch/difference"; then
        echo "$2 $3: not the same (<: the driver alone, >: with GMLake)"
        cat "$scratch/difference" "$scratch/errors"
        failed=1
    fi
}

while read -r -u 3 scenario; do
    case $scenario in
    switched) continue ;;           # waits for somebody who switches
    until-killed) continue ;;       # has no end
    ipc) continue ;;                # below: it is the driver's only with GMLAKE_IPC=1
    devices | peers) [ "$gpus" -ge 2 ] || continue ;;
    esac
    compare "$programs/exercise" proc0 "$scenario"
    case $scenario in
    plain | streams | thread-streams | captures)
        compare "$programs/exercise" dlsym "$scenario"
        compare "$programs/exercise" proc2 "$scenario"
        compare "$programs/exercise_linked" linked "$scenario"
        ;;
    esac
done 3< <(sed -n 's/^SCENARIO("\([^"]*\)".*/\1/p' "$source_dir/tests/preload/scenarios.def")
GMLAKE_IPC=1 compare "$programs/exercise" proc0 ipc
echo "$compared runs compared on $gpus GPUs"
exit "$failed"
