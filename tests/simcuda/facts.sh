#!/bin/sh
# Compares the driver's answers with those on record: facts.sh PROGRAM RECORD. Skipped (77) where there is no driver.
set -u
answers=$(mktemp)
trap 'rm -f "$answers"' EXIT
"$1" > "$answers" 2> /dev/null
result=$?
if [ "$result" -ne 0 ]; then
    echo "no answers (exit code $result)"
    exit "$result"
fi
diff "$2" "$answers"
