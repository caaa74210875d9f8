# What .ci/run and .ci/soak share: steps that count their checks, and the tools that tests need.
# Sourced from the repository's root.

export CARGO_TERM_COLOR=never
# A test that lacks a program fails here. Elsewhere it says that it is skipped, and passes.
export ATOMSEQ_REQUIRE_ALL=1
# Nothing here is compiled twice, and what no later step needs is removed: disks are small.
export CARGO_INCREMENTAL=0
logs=$(mktemp -d)
export logs
# A step runs in a process group of its own, which the terminal does not interrupt.
running=
lane=
stop_steps() { [ -z "$running$lane" ] || kill $running $lane 2>/dev/null || true; }
trap 'stop_steps; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
steps=0
checks=0

# How many seconds a step may take: far more than any takes on two CPUs that other programs keep
# busy.
step_limit=${CI_STEP_SECONDS:-3000}

# limited SECONDS LOG COMMAND…: runs a command or a function of the script, with all its output in
# the log. When its time is up, it is killed with all that it started, and the log says what was
# running.
limited() {
    local seconds=$1 log=$2 status=0
    shift 2
    export -f $(compgen -A function)
    timeout --kill-after=10 "$seconds" bash -uo pipefail -c '"$@"' bash "$@" >"$log" 2>&1 </dev/null &
    running=$!
    wait "$running" || status=$?
    running=
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        # Programs that .ci/runner started have written elsewhere.
        cat "$logs"/slots/*.output >>"$log" 2>/dev/null || true
        { echo "killed after $seconds seconds:"; unfinished "$log"; } >>"$log"
    fi
    return $status
}

# The tests that a log shows as running: reported as slow, and without a result since.
unfinished() {
    awk '/^ +(Running|Doc-tests) / { binary = $0 }
         / has been running for over / { slow[$2] = binary }
         /^test .* \.\.\. / { delete slow[$2] }
         END { print "last begun:" binary; for (test in slow) print "still running: " test " of" slow[test] }' "$1"
}

# The control of these two: tests that hang are killed and named, one that was only slow is not
# named. One of them writes where programs write that .ci/runner has started.
hangs() {
    mkdir -p "$logs/slots"
    printf '%s\n' '     Running tests/other.rs' 'test stuck has been running for over 60 seconds' \
        >"$logs/slots/1.output"
    printf '%s\n' '     Running tests/some.rs' 'test slow has been running for over 60 seconds' \
        'test hung has been running for over 60 seconds' 'test slow ... ok'
    sleep 100
}
a_hang_ends() {
    local status=0
    limited 1 "$logs/hang" hangs || status=$?
    rm -r "$logs/slots"
    [ $status -eq 124 ] && grep '^still running: hung of .*tests/some.rs$' "$logs/hang" &&
        grep '^still running: stuck of .*tests/other.rs$' "$logs/hang" &&
        ! grep 'running: slow' "$logs/hang"
}

# step NAME COUNT-COMMAND COMMAND…: runs the command, and counts its checks in its log. `set -e` is
# off in functions that are steps, so they say `return 1` where a command before the last one fails.
step() {
    local name=$1 count=$2 started=$SECONDS
    shift 2
    local log="$logs/$steps"
    echo "── $name: $*"
    if ! limited "$step_limit" "$log" "$@"; then
        tail -n 150 "$log"
        echo "$name failed"
        echo "$steps passed, 1 failed"
        exit 1
    fi
    local ran
    ran=$($count "$log")
    if [ "${ran:-0}" -le 0 ]; then
        tail -n 50 "$log"
        echo "$name ran no check"
        echo "$steps passed, 1 failed"
        exit 1
    fi
    steps=$((steps + 1))
    checks=$((checks + ran))
    echo "   $ran checks in $((SECONDS - started)) s"
}

# beside FUNCTION: runs the steps of a function at the same time as the following ones, for many
# tests wait. `joined` prints what it has printed and adds its checks; if one of its steps has
# failed, it ends the script as that step did.
beside() {
    mkdir "$logs/beside"
    (
        trap stop_steps EXIT
        trap 'exit 130' TERM
        steps=0 checks=0 logs=$logs/beside
        "$1"
        echo "$steps $checks" >"$logs/counts"
    ) >"$logs/beside.out" 2>&1 &
    lane=$!
}
joined() {
    local status=0 more
    wait "$lane" || status=$?
    lane=
    cat "$logs/beside.out"
    [ $status -eq 0 ] || exit $status
    read -ra more <"$logs/beside/counts"
    steps=$((steps + more[0]))
    checks=$((checks + more[1]))
}

rust_files() { git ls-files '*.rs' | wc -l; }
tests_passed() { awk '/^test result: ok\./ { sum += $4 } END { print sum + 0 }' "$1"; }
lines() { grep -c . "$1" || true; }
crates_checked() { cargo metadata --no-deps --format-version 1 | grep -o '"manifest_path"' | wc -l; }
windows_checked() { awk '/^(every instruction|signal forms):/ { sum += $5 } END { print sum + 0 }' "$1"; }

# install_tools PROGRAM:PACKAGE…: installs the Debian packages of the programs that are missing.
install_tools() {
    local missing=() tool sudo=""
    for tool in "$@"; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        [ "$(id -u)" -eq 0 ] || sudo=sudo
        $sudo apt-get update -qq || return 1
        $sudo apt-get install -y -qq --no-install-recommends ${missing[*]} || return 1
    fi
    for tool in "$@"; do
        "${tool%%:*}" --version | head -1 || return 1
    done
    cargo --version && rustc --version
}
# The AArch64 code is assembled, linked and emulated.
emulation=(aarch64-linux-gnu-as:binutils-aarch64-linux-gnu
    "aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu libc6-dev-arm64-cross" qemu-aarch64:qemu-user)

# packages [--no-verify]: makes the packages of all published crates, and builds each from the files
# of its package alone. `crates` holds no other.
packages() {
    local crate published=()
    for crate in crates/*/; do
        published+=(-p "$(basename "$crate")")
    done
    packaged "$@" "${published[@]}" || return 1
    # The controls: a manifest that lacks what registries show, and a file that the package lacks.
    control_crate
    ! (cd "$logs/control" && packaged "$@") || return 1
    control_crate 'description = "d"' 'license = "MIT"' 'homepage = "https://example.org"'
    (cd "$logs/control" && packaged "$@") || return 1
    [[ $* == *--no-verify* ]] && return
    touch "$logs/outside.txt"
    echo 'const _: &str = include_str!("../../outside.txt");' >"$logs/control/src/lib.rs"
    ! (cd "$logs/control" && packaged "$@")
}
# packaged OPTION…: cargo packages with these options, and warns of nothing.
packaged() {
    CARGO_TARGET_DIR=$logs/package cargo package --allow-dirty "$@" 2>&1 | tee "$logs/packaged" &&
        ! grep '^warning' "$logs/packaged"
}
package_count() { grep -c '^ *Packaged ' "$1" || true; }

# control_crate LINE…: a crate of one empty file, with these lines in its manifest.
control_crate() {
    mkdir -p "$logs/control/src"
    printf '%s\n' '[package]' 'name = "control"' 'version = "0.1.0"' 'edition = "2024"' \
        'rust-version = "1.87"' "$@" '[lints.clippy]' 'incompatible_msrv = "deny"' '[workspace]' \
        >"$logs/control/Cargo.toml"
    : >"$logs/control/src/lib.rs"
}

# The closing lines, which say that every step has passed.
passed() {
    echo "$checks checks in $steps steps, $SECONDS s"
    echo "$steps passed, 0 failed"
}
