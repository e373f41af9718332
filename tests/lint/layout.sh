#!/bin/bash
# layout.sh - a build leaves the programs and libraries where scripts expect them, and they start.
set -u -o pipefail

bin_dir=${GMLAKE_TEST_BIN_DIR:?run this through ctest}
lib_dir=${GMLAKE_TEST_LIB_DIR:?run this through ctest}
failed=0

complain()
{
    printf '%s\n' "$*"
    failed=1
}

for file in "$bin_dir/gmlake" "$bin_dir/gmlaked" "$lib_dir/libgmlake.so" "$lib_dir/libgmlake.so.0" \
    "$lib_dir/libgmlake_preload.so" "$lib_dir/simcuda/libcuda.so.1"; do
    if [ ! -f "$file" ]; then
        complain "$file: not built"
    elif [ "$(head -c 4 "$file" | tail -c 3)" != ELF ]; then
        complain "$file: not a program or library"
    fi
done
for program in gmlake gmlaked; do
    if ! "$bin_dir/$program" --version | grep -q '[0-9]\.[0-9]'; then
        complain "$program --version: no version, or not exit code 0"
    fi
    if ! "$bin_dir/$program" --help | grep -q "$program"; then
        complain "$program --help: no help, or not exit code 0"
    fi
    "$bin_dir/$program" --no-such-option >/dev/null 2>&1
    code=$?
    if [ "$code" -ne 2 ]; then
        complain "$program --no-such-option: exit code $code, expected 2"
    fi
done
exit "$failed"
