#!/bin/bash
# test.sh - installs what is missing, builds, and runs the whole suite. See usage() below; `.ci/run` calls it.
set -u -o pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

usage()
{
    cat <<'END'
usage: tools/test.sh [option...]

Builds every preset that is tested and runs its tests, on the simulated driver: no GPU is needed.

  --quick           the release build and its tests only
  --only STEP,...   these steps only (see --list); "none" for what the options below add alone
  --soak SECONDS    also each random test, and the daemon among hostile processes, for so long, under AddressSanitizer
                    and ThreadSanitizer
  --fuzz SECONDS    also every fuzz target for so long
  --gpu             also the tests that need a real GPU
  --coverage        also line and branch coverage of core and fusefs
  --jobs N          processes at once (default: one a core)
  --list            the steps
  --help            this text

The last lines are ctest's own verdict on each step. The exit code is 0 only if every step passed.
END
}

# --- steps: one row each, name and what it does; the function is step_NAME ---------------------------------------
steps=(
    "release:optimised build, every test but gpu, bench and long"
    "asan:AddressSanitizer and UndefinedBehaviorSanitizer on unit, integration and stress tests"
    "tsan:ThreadSanitizer on unit and stress tests"
    "parsers:the parsers and the protocol under libFuzzer, side by side for 20 seconds"
    "clang:clang, warnings as errors, the project's own driver header; unit tests"
    "analyse:clang-tidy and cppcheck"
)
extra_steps=(
    "soak:each random test, and hostile processes at the daemon, for --soak SECONDS"
    "fuzz:every fuzz target for --fuzz SECONDS"
    "gpu:the tests that need a real GPU"
    "coverage:lines and branches of core and fusefs that the tests reach"
)

# run_ctest BUILD ARGUMENT...: the output is kept in build/BUILD.ctest; the closing lines are collected for the end.
run_ctest()
{
    local build=$1 log="$root_dir/build/$1.ctest"
    shift
    ctest --test-dir "$root_dir/build/$build" --parallel "$jobs" --output-on-failure --no-tests=error "$@" 2>&1 |
        tee "$log" | grep -vE '^ *Start |Passed  '
    local code=${PIPESTATUS[0]}
    closing+=("$(sed -n '/tests passed,/,$p' "$log" | grep -vE '^(Output from these|Use "--rerun|$)')")
    return "$code"
}

step_release()
{
    need_packages "${build_packages[@]}" clang-format codespell shellcheck mandoc prometheus prometheus-node-exporter curl
    build_preset release -DGMLAKE_WERROR=ON && run_ctest release --label-exclude '^(gpu|bench|long)$'
}

step_asan()
{
    need_packages "${build_packages[@]}"
    build_preset asan -DGMLAKE_WERROR=ON &&
        run_ctest asan --label-regex '^(unit|integration|stress|fuzz)$' --label-exclude '^(gpu|bench|long)$'
}

step_tsan()
{
    need_packages "${build_packages[@]}"
    build_preset tsan -DGMLAKE_WERROR=ON &&
        run_ctest tsan --label-regex '^(unit|stress)$' --label-exclude '^(gpu|bench|long)$'
}

step_clang()
{
    need_packages "${build_packages[@]}" clang
    build_preset clang && run_ctest clang --label-regex '^unit$' --label-exclude '^(gpu|bench|long)$'
}

step_analyse()
{
    need_packages "${build_packages[@]}" clang clang-tidy cppcheck
    # Of what is built, the analysers need the headers only.
    build_preset clang -- --target simcuda_abi_values || return 1
    local failed=0 log=$root_dir/build/tidy.log
    if ! "$root_dir/tests/lint/analyse.sh" tidy "$root_dir/build/clang" >"$log" 2>&1; then
        failed=1
        grep -E '(error|warning): ' "$log" | sort -u
        note "the paths to them: $log"
    fi
    "$root_dir/tests/lint/analyse.sh" cppcheck "$root_dir/build/clang" || failed=1
    return "$failed"
}

# run_script PRESET SCRIPT NAME=VALUE...: a test that is a script, with what ctest would give it, for as long as it takes.
run_script()
{
    local build=$root_dir/build/$1 script=$root_dir/tests/$2
    shift 2
    env "$@" GMLAKE_TEST_SOURCE_DIR="$root_dir" GMLAKE_TEST_BUILD_DIR="$build" GMLAKE_TEST_BIN_DIR="$build/bin" \
        GMLAKE_TEST_LIB_DIR="$build/lib" GMLAKE_TEST_SIMCUDA_DIR="$build/lib/simcuda" GMLAKE_TEST_SANITIZE=yes "$script"
}

# The random tests, one thread and then four, with a seed that is printed so that a failure can be had again.
step_soak()
{
    need_packages "${build_packages[@]}"
    local preset failed=0 threads seed
    for preset in asan tsan; do
        build_preset "$preset" -DGMLAKE_WERROR=ON || {
            failed=1
            continue
        }
        for threads in 1 4; do
            seed=$RANDOM
            note "$preset, $threads threads, seed $seed: $soak_seconds s"
            GMLAKE_TEST_SIMCUDA_DIR=$root_dir/build/$preset/lib/simcuda "$root_dir/build/$preset/tests/stress_random" \
                --seconds "$soak_seconds" --threads "$threads" --seed "$seed" >"$root_dir/build/soak.log" 2>&1 || failed=1
            tail -n $((failed * 40 + 1)) "$root_dir/build/soak.log"
        done
        note "$preset, hostile processes: $soak_seconds s"
        run_script "$preset" fusefs/hostile.sh "GMLAKE_TEST_SECONDS=$soak_seconds" >"$root_dir/build/soak.log" 2>&1 ||
            failed=1
        tail -n $((failed * 40 + 1)) "$root_dir/build/soak.log"
    done
    return "$failed"
}

# fuzz_target NAME SECONDS: from its corpus on, which stays as it is.
fuzz_target()
{
    local name=$1 scratch code=0
    scratch=$(mktemp -d)
    "$root_dir/build/fuzz/tests/fuzz_$name" -max_total_time="$2" -print_final_stats=1 \
        -artifact_prefix="$root_dir/build/fuzz/" "$scratch" "$root_dir/tests/fuzz/corpus/$name" \
        >"$root_dir/build/fuzz-$name.log" 2>&1 || code=1
    [ "$code" -eq 0 ] || tail -n 30 "$root_dir/build/fuzz-$name.log"
    printf '%s: %s\n' "$name" "$(grep -E 'number_of_executed_units' "$root_dir/build/fuzz-$name.log")"
    rm -rf "$scratch"
    return "$code"
}

step_parsers()
{
    need_packages "${build_packages[@]}" clang libclang-rt-14-dev
    build_preset fuzz || return 1
    local name failed=0 pids=()
    for name in parse tunable message snapshot; do
        fuzz_target "$name" 20 &
        pids+=($!)
    done
    for name in "${pids[@]}"; do
        wait "$name" || failed=1
    done
    return "$failed"
}

step_fuzz()
{
    need_packages "${build_packages[@]}" clang libclang-rt-14-dev
    build_preset fuzz || return 1
    local target failed=0 targets=0
    for target in "$root_dir"/build/fuzz/tests/fuzz_*; do
        [ -x "$target" ] || continue
        targets=$((targets + 1))
        note "${target##*/fuzz_}: $fuzz_seconds s"
        fuzz_target "${target##*/fuzz_}" "$fuzz_seconds" || failed=1
    done
    [ "$targets" -gt 0 ] || die "no fuzz target was built"
    return "$failed"
}

step_gpu()
{
    need_packages "${build_packages[@]}"
    build_preset release -DGMLAKE_WERROR=ON && run_ctest release --label-regex '^gpu$'
}

step_coverage()
{
    need_packages "${build_packages[@]}" gcovr
    build_preset coverage || return 1
    find "$root_dir/build/coverage" -name '*.gcda' -delete
    run_ctest coverage --label-exclude '^(gpu|bench|long|lint)$' || return 1
    (cd "$root_dir" && gcovr --root . --filter core/ --filter fusefs/ --exclude-unreachable-branches \
        --exclude-throw-branches --print-summary build/coverage) | grep -vE '^(-|GCC|File|Directory)' | tail -n 80
}

# --- options -----------------------------------------------------------------------------------------------------
seconds_of()
{
    case "${2:-}" in
    '' | *[!0-9]* | 0) die "$1 wants a number of seconds, for example $1 600" ;;
    esac
    printf '%s\n' "$2"
}

names_of()
{
    printf '%s\n' "$@" | cut -d: -f1
}

wanted=()
extra=()
while [ $# -gt 0 ]; do
    case "$1" in
    --quick) wanted=(release) ;;
    --only)
        IFS=, read -r -a wanted <<<"${2:-}"
        for step in "${wanted[@]}"; do
            [ "$step" != none ] || continue
            names_of "${steps[@]}" | grep -qx "$step" || die "--only: no step '$step'; --list shows them"
        done
        shift
        ;;
    --soak)
        soak_seconds=$(seconds_of "$1" "${2:-}") || exit 1
        extra+=(soak)
        shift
        ;;
    --fuzz)
        fuzz_seconds=$(seconds_of "$1" "${2:-}") || exit 1
        extra+=(fuzz)
        shift
        ;;
    --gpu) extra+=(gpu) ;;
    --coverage) extra+=(coverage) ;;
    --jobs)
        jobs=$(seconds_of "$1" "${2:-}") || exit 1
        shift
        ;;
    --list)
        printf '%s\n' "${steps[@]}" "${extra_steps[@]}" | sed 's/:/\t/'
        exit 0
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
if [ "${#wanted[@]}" -eq 0 ]; then
    mapfile -t wanted < <(names_of "${steps[@]}")
fi

# --- run ---------------------------------------------------------------------------------------------------------
verdict=0
summary=()
for step in "${wanted[@]}" "${extra[@]}"; do
    [ "$step" != none ] || continue
    headline "$step: $(printf '%s\n' "${steps[@]}" "${extra_steps[@]}" | sed -n "s/^$step://p")"
    closing=()
    started=$SECONDS
    if "step_$step"; then
        word="${green}passed${plain}"
    else
        word="${red}FAILED${plain}"
        verdict=1
    fi
    summary+=("$(printf '%s-- %s: %s%s in %d s' "$bold" "$step" "$word" "$plain" $((SECONDS - started)))")
    summary+=("${closing[@]}")
done

headline "summary"
printf '%s\n' "${summary[@]}"
exit "$verdict"
