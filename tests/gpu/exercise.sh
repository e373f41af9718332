#!/bin/bash
# exercise.sh - the programs that the preload library is tested with on the simulated driver (tests/preload), on the
# machine's own: every scenario through the doors that programs use, without and with the library. What they print is the
# same, but for lines that begin with "driver:". JOBS (8) at a time; what differs then, as others take memory meanwhile,
# is run once more alone. What does not end with the driver alone is not compared: threads' default streams may hang it,
# when their thread ends with stream-ordered frees on them (driver 580).
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
compared=0

# run FILE PRELOAD PROGRAM DOOR SCENARIO: its output without the counts, and its exit code.
run()
{
    local out=$1
    LD_PRELOAD=$2 timeout -k 2 20 "$3" "$4" "$5" 2>"$out.errors" | grep -v '^driver:' >"$out"
    echo "exit ${PIPESTATUS[0]}" >>"$out"
}

# compare NAME PROGRAM DOOR SCENARIO: leaves NAME.difference where there is one.
compare()
{
    local name=$1 began=$SECONDS
    shift
    run "$name.bare" "" "$@"
    local between=$SECONDS
    run "$name.preloaded" "$preload" "$@"
    diff "$name.bare" "$name.preloaded" >"$name.difference" && rm "$name.difference"
    echo "$2 $3: $((between - began)) s alone, $((SECONDS - between)) s with GMLake"
}

# launch PROGRAM DOOR SCENARIO: compares in the background.
launch()
{
    while (($(jobs -rp | wc -l) >= ${JOBS:-8})); do
        wait -n
    done
    compared=$((compared + 1))
    printf '%s ' "${GMLAKE_IPC:-0}" "$@" >"$scratch/$compared"
    compare "$scratch/$compared" "$@" &
}

while read -r -u 3 scenario; do
    case $scenario in
    switched) continue ;;           # waits for somebody who switches
    until-killed) continue ;;       # has no end
    ipc) continue ;;                # below: it is the driver's only with GMLAKE_IPC=1
    devices | peers) [ "$gpus" -ge 2 ] || continue ;;
    esac
    launch "$programs/exercise" proc0 "$scenario"
    case $scenario in
    plain | streams | thread-streams | captures)
        launch "$programs/exercise" dlsym "$scenario"
        launch "$programs/exercise" proc2 "$scenario"
        launch "$programs/exercise_linked" linked "$scenario"
        ;;
    esac
done 3< <(sed -n 's/^SCENARIO("\([^"]*\)".*/\1/p' "$source_dir/tests/preload/scenarios.def")
GMLAKE_IPC=1 launch "$programs/exercise" proc0 ipc
wait

failed=0
for difference in "$scratch"/*.difference; do
    [ -e "$difference" ] || continue
    name=${difference%.difference}
    if grep -q '^exit 124' "$name.bare" && ! grep -q '^exit 124' "$name.preloaded"; then
        compared=$((compared - 1))
        continue
    fi
    read -r ipc program door scenario <"$name"
    GMLAKE_IPC=$ipc compare "$name" "$program" "$door" "$scenario"
    if [ -e "$difference" ]; then
        echo "$door $scenario: not the same (<: the driver alone, >: with GMLake)"
        cat "$difference" "$name.preloaded.errors"
        failed=1
    fi
done
echo "$compared runs compared on $gpus GPUs"
exit "$failed"
