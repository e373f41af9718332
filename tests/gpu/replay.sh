#!/bin/bash
# replay.sh - recorded runs on the real driver: by the C API, by the C API with every block checked for its contents, and
# through the preload library. No allocation fails, and memory is used as well as on the simulated driver.
set -u -o pipefail

gmlake=${GMLAKE_TEST_BIN_DIR:?run this through ctest}/gmlake
data=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}/tests/data
if [ ! -e /dev/nvidia0 ]; then
    echo "skipped: no /dev/nvidia0"
    exit 77
fi
failed=0

complain()
{
    printf '%s\n' "$*"
    failed=1
}

field()
{
    sed -n "s/.*\"$1\": *\([-0-9.eE+]*\).*/\1/p" <<<"$2"
}

# check WHAT EFFICIENCY JSON: nothing refused, and at least that efficient.
check()
{
    echo "$1: efficiency $(field efficiency "$3"), first iteration $(field first_iteration_driver_us "$3") us of driver time"
    [ "$(field oom "$3")" = 0 ] || complain "$1: $(field oom "$3") allocations were refused"
    awk -v have="$(field efficiency "$3")" -v want="$2" 'BEGIN { exit !(have >= want) }' ||
        complain "$1: efficiency is less than $2"
}

for name in opt-1.3b-LR unet; do
    trace=$data/$name.gz
    if ! result=$("$gmlake" replay --via core --json "$trace"); then
        complain "$name, core: the replay failed"
        continue
    fi
    check "$name, core" 0.98 "$result"
    "$gmlake" replay --via core --verify --scale 0.1 --json "$trace" >/dev/null || complain "$name, verify: blocks share memory"
    if ! result=$("$gmlake" run -- "$gmlake" replay --via driver --json "$trace"); then
        complain "$name, preload: the replay failed"
        continue
    fi
    check "$name, preload" 0.90 "$result"
done
exit "$failed"
