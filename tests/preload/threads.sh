#!/bin/bash
# threads.sh - wrapped programs under ThreadSanitizer: several threads, threads' streams, contexts, captures, the end. What
# they print is compared elsewhere (test_preload.c); here nothing may race.
set -u -o pipefail

programs=${GMLAKE_TEST_BUILD_DIR:?run this through ctest}/tests/preload/programs
preload=${SANITIZER_RUNTIME:?}:$GMLAKE_TEST_LIB_DIR/libgmlake_preload.so
export LD_LIBRARY_PATH=$GMLAKE_TEST_SIMCUDA_DIR SIMCUDA_LEAKS=0 SIMCUDA_STREAM_DELAY_US=0-50
failed=0
for scenario in crowd thread-streams pool-trace contexts context-end context-idle captures-beside captures-owed \
    devices at-exit; do
    said=$(SIMCUDA_DEVICES=2 LD_PRELOAD=$preload timeout 300 "$programs/exercise" proc0 "$scenario" 2>&1)
    code=$?
    if [ "$code" -ne 0 ] || grep -q ThreadSanitizer <<<"$said"; then
        printf '%s: exit code %d\n%s\n' "$scenario" "$code" "$said"
        failed=1
    fi
done
exit "$failed"
