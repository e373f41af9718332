#!/bin/bash
# analyse.sh tidy|cppcheck BUILD_DIR - static analysis of the sources a build compiles, by its compile_commands.json.
set -u -o pipefail

cd "$(dirname "$0")/../.." || exit 1
tool=${1:-}
build=${2:-}
if [ ! -f "$build/compile_commands.json" ]; then
    echo "usage: analyse.sh tidy|cppcheck BUILD_DIR (configured, so that it has compile_commands.json)" >&2
    exit 2
fi

# Relative, so that cppcheck knows the folder tests by its name.
build=$(realpath --relative-to=. "$build")

# The project's own sources, each once.
sources()
{
    sed -n "s|^ *\"file\": *\"$PWD/\(.*\)\",*$|\1|p" "$build/compile_commands.json" | grep '\.c$' | sort -u
}

case "$tool" in
tidy)
    tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
        echo "clang-tidy is not installed (Debian: apt-get install clang-tidy)" >&2
        exit 1
    }
    # gcc's own warning options are unknown to clang: they are not what is looked at here.
    sources | xargs -r -P "$(nproc)" -n 1 "$tidy" --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-include --extra-arg="$PWD/tests/lint/errno_model.h"
    ;;
cppcheck)
    command -v cppcheck >/dev/null || {
        echo "cppcheck is not installed (Debian: apt-get install cppcheck)" >&2
        exit 1
    }
    mkdir -p "$build/cppcheck"
    # fusefs and tools free by __attribute__((cleanup)), which cppcheck takes for leaks. Tests are left out: cmocka's
    # assertions jump, which it does not know. Return values of mmap at a given address are not lost, only known before.
    cppcheck --project="$build/compile_commands.json" --cppcheck-build-dir="$build/cppcheck" -j "$(nproc)" --quiet \
        --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --library=posix --library=gnu \
        --suppress=missingIncludeSystem --suppress='memleak:*fusefs/*' --suppress='memleak:*tools/*' \
        --suppress='resourceLeak:*fusefs/*' --suppress='resourceLeak:*tools/*' --suppress=leakReturnValNotUsed \
        -D__x86_64__ '-DElfW(type)=Elf64_##type' -i tests
    ;;
*)
    echo "usage: analyse.sh tidy|cppcheck BUILD_DIR" >&2
    exit 2
    ;;
esac
