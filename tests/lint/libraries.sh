#!/bin/bash
# libraries.sh - the shared libraries of the build export what they promise and need libc alone.
#
#   libgmlake.so          the functions that gmlake.h and torch.h declare, nothing else
#   libgmlake_preload.so  the names in its linker map, nothing else
#   all of core           no library but libc (and a sanitizer's runtime, in its build), and that no newer than 2.34;
#                         dlsym() and dlvsym() at both versions that programs refer to
set -u -o pipefail

source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
lib_dir=${GMLAKE_TEST_LIB_DIR:?run this through ctest}
failed=0

complain()
{
    printf '%s\n' "$*"
    failed=1
}

exported()
{
    nm --dynamic --defined-only --format=posix "$1" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort -u
}

declared()
{
    local header
    for header in gmlake.h torch.h; do
        gcc -fpreprocessed -dD -E "$source_dir/include/gmlake/$header" 2>/dev/null
    done |
        grep -oE '\bgmlake_[a-z_]+ *\(' | tr -d ' (' | sort -u
}

# The names that a linker map exports; a map.in is run through the preprocessor first, as the build does.
mapped()
{
    gcc -E -P -x c -I "$(dirname "$1")" -I "$source_dir/include" "$1" |
        sed -e 's|}|\nlocal:\n|g' -e 's|[;{]|\n|g' -e 's|global:|\n&\n|g' | awk '
        { gsub(/[[:space:]"]/, "") }
        /^global:/ { on = 1; next }
        /^local:/ { on = 0 }
        on && $0 != "" { print }' | sort -u
}

# compare NAME EXPECTED EXPORTED: complains about each difference.
compare()
{
    local name
    while IFS= read -r name; do
        complain "$1: does not export $name, which it promises"
    done < <(comm -23 <(printf '%s\n' "$2") <(printf '%s\n' "$3"))
    while IFS= read -r name; do
        complain "$1: exports $name, which nothing promises"
    done < <(comm -13 <(printf '%s\n' "$2") <(printf '%s\n' "$3"))
}

needs_libc_alone()
{
    local name
    while IFS= read -r name; do
        case "$name" in
        libc.so.6 | ld-linux*) ;;
        libasan.so* | libubsan.so* | libtsan.so* | libclang_rt*)
            [ -n "${GMLAKE_TEST_SANITIZE:-}" ] || complain "$1: needs $name outside a sanitizer build"
            ;;
        libm.so.6 | libgcc_s.so.1 | libdl.so.2 | libpthread.so.0 | librt.so.1)
            [ -n "${GMLAKE_TEST_SANITIZE:-}" ] || complain "$1: needs $name; core links libc alone"
            ;;
        *) complain "$1: needs $name; core links libc alone" ;;
        esac
    done < <(readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
}

# glibc 2.34 is the first with all of it in libc.so.6. A library that needs a newer one is refused by the loader, and the
# program with it.
runs_on_old_glibc()
{
    local newest
    newest=$(readelf --version-info --wide "$1" | sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1)
    [ -n "${GMLAKE_TEST_SANITIZE:-}" ] || [ "$(printf '%s\n2.34\n' "$newest" | sort -V | tail -n 1)" = 2.34 ] ||
        complain "$1: needs glibc $newest"
}

has_both_versions()
{
    local name version first=GLIBC_2.2.5
    [ "$(uname -m)" != aarch64 ] || first=GLIBC_2.17
    for name in dlsym dlvsym; do
        for version in "$name@@GLIBC_2.34" "$name@$first"; do
            nm --dynamic --defined-only --with-symbol-versions "$1" | awk '{ print $3 }' | grep -qxF "$version" ||
                complain "$1: has no $version"
        done
    done
}

for library in libgmlake.so libgmlake_preload.so simcuda/libcuda.so.1; do
    if [ ! -e "$lib_dir/$library" ]; then
        complain "$lib_dir/$library: not built"
    fi
done
[ "$failed" -eq 0 ] || exit 1

compare libgmlake.so "$(declared)" "$(exported "$lib_dir/libgmlake.so")"
needs_libc_alone "$lib_dir/libgmlake.so"
needs_libc_alone "$lib_dir/libgmlake_preload.so"
runs_on_old_glibc "$lib_dir/libgmlake.so"
runs_on_old_glibc "$lib_dir/libgmlake_preload.so"
has_both_versions "$lib_dir/libgmlake_preload.so"

shopt -s nullglob
maps=("$source_dir"/core/preload/*.map "$source_dir"/core/preload/*.map.in)
if [ "${#maps[@]}" -eq 1 ]; then
    compare libgmlake_preload.so "$(mapped "${maps[0]}")" "$(exported "$lib_dir/libgmlake_preload.so")"
else
    complain "core/preload: ${#maps[@]} linker maps, expected one"
fi

# The simulated driver is a driver: every name is one of the driver's, or says that it is the simulator's own.
while IFS= read -r name; do
    case "$name" in
    cu[A-Z]* | simcuda_*) ;;
    *) complain "simcuda/libcuda.so.1: exports $name, which is neither cu* nor simcuda_*" ;;
    esac
done < <(exported "$lib_dir/simcuda/libcuda.so.1")
exit "$failed"
