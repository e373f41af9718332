#!/bin/bash
# source.sh CHECK - looks over the source tree. Prints file:line: message for what is wrong; exits 1 then, 77 where
# the program a check needs is not installed. `source.sh list` prints the checks.
set -u -o pipefail

cd "${GMLAKE_TEST_SOURCE_DIR:-$(dirname "$0")/../..}" || exit 1
failed=0

complain()
{
    printf '%s\n' "$*"
    failed=1
}

# Complains about every line of standard input, which is file:line:text, giving the reason.
complain_each()
{
    local line
    while IFS= read -r line; do
        complain "$line  <- $1"
    done
}

need()
{
    if ! command -v "$1" >/dev/null; then
        echo "skipped: $1 is not installed"
        exit 77
    fi
}

# files PATTERN...: the files of the project, committed or new, that match the patterns of git ls-files.
files()
{
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@" | sort -u | while IFS= read -r file; do
            [ -f "$file" ] && printf '%s\n' "$file"
        done
    else
        local pattern
        for pattern in "$@"; do
            find . \( -path ./build -o -path ./.git \) -prune -o -type f -path "./${pattern}" -print | sed 's|^\./||'
        done | sort -u
    fi
}

# code FILE...: the C sources without comments and the insides of strings, as file:line:text.
code()
{
    gcc -fpreprocessed -dD -E -x c "$@" 2>/dev/null | awk '
        /^# [0-9]+ "[^<]/ { file = $3; gsub(/"/, "", file); line = $2 - 1; next }
        /^# [0-9]+ / { next }
        { gsub(/"([^"\\\\]|\\\\.)*"/, "\"\""); line++; print file ":" line ":" $0 }'
}

# --- the checks -------------------------------------------------------------------------------------------------

# No file over 600 lines: a file is one idea.
check_size()
{
    local file lines sources
    mapfile -t sources < <(files '*.c' '*.h' '*.def' '*.sh' '*.cmake' '*CMakeLists.txt')
    while read -r lines file; do
        if [ "$lines" -gt 600 ] && [ -e "$file" ]; then
            complain "$file: $lines lines; 600 is the limit"
        fi
    done < <(wc -l "${sources[@]}" </dev/null)
}

# core/ is a guest in somebody's process: it never ends it, writes to its standard output or trusts the environment
# of a set-uid program. secure_getenv belongs where settings are read.
check_host()
{
    local sources word='(^|[^A-Za-z0-9_.>])' text
    mapfile -t sources < <(files 'core/*.c' 'core/*.h')
    text=$(code "${sources[@]}")
    host_rule "$text" "${word}(exit|_exit|_Exit|quick_exit|abort|raise|err|errx)[[:space:]]*\(" \
        "core never ends its host"
    host_rule "$text" "${word}(printf|vprintf|puts|putchar)[[:space:]]*\(|${word}stdout([^A-Za-z0-9_]|$)|STDOUT_FILENO" \
        "core never writes to standard output"
    host_rule "$text" "${word}(getenv|setenv|putenv|unsetenv|system|popen)[[:space:]]*\(" \
        "core reads the environment by secure_getenv only, and never changes it"
    host_rule "$text" '__attribute__\(\(.*constructor|:# *include <cuda_runtime' \
        "core does nothing when it is loaded"
    host_rule "$(grep -vE '^core/(ctl/|preload/|base/log\.)' <<<"$text")" "${word}secure_getenv[[:space:]]*\(" \
        "settings are read in core/ctl, core/preload and core/base/log only"
}

# host_rule TEXT PATTERN REASON: complains about the lines of TEXT that match.
host_rule()
{
    complain_each "$3" < <(grep -E "$2" <<<"$1")
}

# layer_uses LAYER: the layers it names in its gm_layer(... USES ...).
layer_uses()
{
    tr '\n' ' ' <"core/$1/CMakeLists.txt" 2>/dev/null |
        sed -n "s/.*gm_layer($1 [^)]*USES \([^)]*\)).*/\1/p"
}

# layer_closure LAYER: it and all layers below it.
layer_closure()
{
    local todo=("$1") seen=' ' layer
    while [ "${#todo[@]}" -gt 0 ]; do
        layer=${todo[0]}
        todo=("${todo[@]:1}")
        case "$seen" in *" $layer "*) continue ;; esac
        seen="$seen$layer "
        # shellcheck disable=SC2207 # a list of words is what it is
        todo+=($(layer_uses "$layer"))
    done
    printf '%s\n' "$seen"
}

# includes PATTERN...: the quoted includes of the files that match, as "file line name".
includes()
{
    local sources
    mapfile -t sources < <(files "$@")
    awk -F'"' '/^[[:space:]]*#[[:space:]]*include[[:space:]]*"/ { print FILENAME, FNR, $2 }' "${sources[@]}" </dev/null
}

# check_includes FOLDER...: each quoted include on standard input, as includes() says it, is a file beside the one that
# includes it or of one of the folders, and is no path. Of FOLDER, TOOL is the first folder below tools/.
check_includes()
{
    local file line name folder found tool
    while read -r file line name; do
        case "$name" in
        ../simcuda/*) name=${name#../} ;;
        *..*) complain "$file:$line: \"$name\" climbs out of its folder" && continue ;;
        esac
        found=
        tool=${file#tools/}
        for folder in "${file%/*}" "${@/#TOOL/tools/${tool%%/*}}"; do
            if [ -e "$folder/$name" ]; then
                found=1
            fi
        done
        if [ -z "$found" ] && [ -n "$(files "core/*/$name" "fusefs/$name" "tools/*/$name" "tools/$name")" ]; then
            complain "$file:$line: \"$name\" belongs to a layer that this one does not use"
        fi
    done
}

# A lower layer never includes a higher one. In the order below a layer uses those before it.
check_layers()
{
    local order='base cu ctl vmm pool api preload' layer used file line name rank=0 folders
    declare -A ranks
    for layer in $order; do
        ranks[$layer]=$((rank++))
    done
    for layer in $order; do
        for used in $(layer_uses "$layer"); do
            if [ -z "${ranks[$used]:-}" ] || [ "${ranks[$used]}" -ge "${ranks[$layer]}" ]; then
                complain "core/$layer/CMakeLists.txt: $layer uses $used, which is not below it ($order)"
            fi
        done
        folders=()
        for used in $(layer_closure "$layer"); do
            folders+=("core/$used")
        done
        check_includes "${folders[@]}" < <(includes "core/$layer/*.c" "core/$layer/*.h" "core/$layer/*.def")
    done
    # The daemon and the tools never see a pool, and the public headers nothing at all. Of another tool, a tool sees
    # what it names with the tool's folder.
    check_includes fusefs core/base core/cu core/ctl < <(includes 'fusefs/*.c' 'fusefs/*.h')
    check_includes TOOL tools core/base core/cu core/ctl < <(includes 'tools/*.c' 'tools/*.h')
    while read -r file line name; do
        complain "$file:$line: public headers include <gmlake/...> and libc only"
    done < <(includes 'include/*')
}

# Nothing that belongs to one machine or to a work in progress; text files end in a newline and hold no stray blanks.
check_words()
{
    local file texts=() sources marker='TO''DO|FIX''ME|XX''X|HA''CK' place='/wo''rk/|/ho''me/[a-z]|/mn''t/|/Us''ers/'
    while IFS= read -r file; do
        case "$file" in
        tests/data/* | tests/fuzz/corpus/* | LICENSE) continue ;;
        esac
        texts+=("$file")
    done < <(files '*' | grep -vE '\.(gz|png|bin)$')
    # The last byte of each that is not empty: all at once, since there is hardly ever one to look for.
    if [ -n "$(tail -qc1 "${texts[@]}" | tr -d '\n')" ]; then
        for file in "${texts[@]}"; do
            [ -z "$(tail -c1 "$file")" ] || complain "$file: no newline at the end"
        done
    fi
    mapfile -t sources < <(files '*.c' '*.h' '*.def')
    complain_each "unfinished work" < <(grep -nHE "(^|[^A-Za-z])($marker)([^A-Za-z]|$)" "${texts[@]}")
    complain_each "a path of one machine" < <(grep -nHE "$place" "${texts[@]}")
    complain_each "blanks at the end of the line" < <(grep -nHE '[[:blank:]]+$' "${texts[@]}")
    complain_each "a carriage return" < <(grep -nH $'\r' "${texts[@]}")
    complain_each "a tab in C" < <(grep -nH $'\t' "${sources[@]}")
}

# Every C source and header opens with a comment that says what it is.
check_headers()
{
    local file first
    while IFS= read -r file; do
        first=
        IFS= read -r -N 2 first <"$file"
        if [ "$first" != '/*' ]; then
            complain "$file:1: does not begin with a comment that says what it is"
        fi
    done < <(files '*.c' '*.h' '*.def')
}

check_format()
{
    local formatter file sources
    formatter=$(command -v clang-format-14 || command -v clang-format) || need clang-format
    mapfile -t sources < <(files '*.c' '*.h')
    while IFS= read -r file; do
        complain "$file: not formatted; run clang-format -i on it"
    done < <("$formatter" --dry-run "${sources[@]}" 2>&1 | sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
}

check_shell()
{
    need shellcheck
    mapfile -t scripts < <(files '*.sh' '.ci/*')
    # SC2317 does not see functions that are called by a name put together at run time; SC2016 takes a program for another
    # shell, rightly in single quotes, for a mistake.
    shellcheck --exclude=SC2016,SC2317 --external-sources --source-path=SCRIPTDIR "${scripts[@]}" || failed=1
    complain_each 'here $? is the exit code of the $(...) before it, not of the last command' \
        < <(grep -nHE '\$\([^(][^)]*\)[^;&|]* "?\$\?"?($|[ ;&|])' "${scripts[@]}")
}

check_spelling()
{
    need codespell
    mapfile -t texts < <(files '*' | grep -vE '^(tests/data/|LICENSE)|\.(gz|bin)$')
    codespell --quiet-level=3 --ignore-words-list=nd "${texts[@]}" || failed=1
}

# The manual pages that the build made: no warning of the formatter, and every file of the mount is described.
check_manual()
{
    local page formatter name
    while IFS= read -r name; do
        grep -qE "(^|[^a-z_])${name//./\\.}([^a-z_]|$)" tools/man/gmlake.5.in ||
            complain "tools/man/gmlake.5.in: does not describe the file $name, which fusefs/node.c shows"
    done < <(sed -n 's/^    {"\([a-z_.]\{1,\}\)",.*/\1/p' fusefs/node.c)
    formatter=$(command -v mandoc || command -v groff) || need mandoc
    for page in "${GMLAKE_TEST_BUILD_DIR:?run this check through ctest}"/man/*.[1-8]; do
        [ -s "$page" ] || complain "$page: not made"
        case "$formatter" in
        *mandoc) "$formatter" -T lint -W warning "$page" || failed=1 ;;
        *) complain_each "groff" < <("$formatter" -ww -z -mdoc -Tutf8 "$page" 2>&1) ;;
        esac
    done
}

checks=$(declare -F | sed -n 's/^declare -f check_//p' | grep -v '^includes$')
case "${1:-}" in
list) printf '%s\n' "$checks" ;;
*)
    if ! grep -qx "${1:-}" <<<"$checks"; then
        echo "usage: source.sh CHECK, one of: $(tr '\n' ' ' <<<"$checks")" >&2
        exit 2
    fi
    "check_$1"
    exit "$failed"
    ;;
esac
