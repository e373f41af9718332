#!/bin/bash
# install.sh COMPILER - installs the build into a scratch folder, then builds and runs an application against it.
set -eu -o pipefail

compiler=${1:?usage: install.sh COMPILER}
build=${GMLAKE_TEST_BUILD_DIR:?run this through ctest}
source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
if [ -n "${GMLAKE_TEST_SANITIZE:-}" ]; then
    echo "skipped: a sanitizer build is not one to install"
    exit 77
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

cmake --install "$build" --prefix "$prefix" >"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    exit 1
}
cd "$scratch"

missing=0
for file in bin/gmlake sbin/gmlaked include/gmlake/gmlake.h include/gmlake/tunables.def include/gmlake/stats.def \
    share/man/man1/gmlake.1 share/man/man5/gmlake.5 share/man/man8/gmlaked.8 lib/systemd/system/gmlaked.service share/doc/gmlake/LICENSE; do
    if [ ! -f "$prefix/$file" ]; then
        echo "not installed: $file"
        missing=1
    fi
done
for library in libgmlake.so libgmlake.so.0 libgmlake_preload.so libcuda.so.1; do
    if [ -z "$(find "$prefix" -name "$library")" ]; then
        echo "not installed: $library"
        missing=1
    fi
done
[ "$missing" -eq 0 ]

# The programs find their libraries where they are now, not where they were built.
"$prefix/bin/gmlake" version
"$prefix/bin/gmlake" run --sim -- true

if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name gmlake.pc)")
    export PKG_CONFIG_PATH
    read -r -a flags <<<"$(pkg-config --cflags --libs gmlake)"
    "$compiler" -Wall -Wextra -Werror "$source_dir/tests/install/consumer.c" "${flags[@]}" -o by_pkg_config
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir gmlake) ./by_pkg_config
    if command -v c++ >/dev/null; then
        c++ -Wall -Wextra -Werror "$source_dir/tests/install/consumer.cc" "${flags[@]}" -o by_cxx
        LD_LIBRARY_PATH=$(pkg-config --variable=libdir gmlake) ./by_cxx
    fi
fi
{
    cmake -S "$source_dir/tests/install/project" -B package -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" &&
        cmake --build package
} >"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    exit 1
}
./package/consumer
