# Sourced by the other scripts: makes the virtual environment .venv and installs mlpot into it.
#
#   make_environment EXTRA...    e.g. make_environment phonons dev
#
# Leaves the environment's Python in $PYTHON. The MLX backend for this machine (extra cpu, cuda12 or
# cuda13 on Linux, none on macOS) is added by itself; MLPOT_BACKEND=cpu overrides the choice.
# Nothing is installed again while pyproject.toml, constraints.txt and the extras stay the same.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${MLPOT_PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

backend_extra() {
    if [ -n "${MLPOT_BACKEND:-}" ]; then
        echo "$MLPOT_BACKEND"
    elif [ "$(uname -s)" = Darwin ]; then
        [ "$(uname -m)" = arm64 ] || fail "MLX runs on Macs with Apple silicon, not on Intel ones"
    else
        local driver
        driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
        driver=${driver%%.*}
        if [[ "$driver" =~ ^[0-9]+$ ]] && [ "$driver" -ge 580 ]; then
            echo cuda13
        elif [[ "$driver" =~ ^[0-9]+$ ]] && [ "$driver" -ge 550 ]; then
            echo cuda12
        else
            echo cpu
        fi
    fi
}

make_environment() {
    local base extras stamp wanted
    PYTHON=$root/.venv/bin/python
    extras=$(backend_extra) || exit 1
    extras=$(IFS=,; echo "${extras:+$extras,}$*")
    stamp=$root/.venv/mlpot-installed
    wanted=$(echo "$extras" | cat - "$root/pyproject.toml" "$root/constraints.txt" | cksum)
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$PYTHON" -c 'import mlpot' 2>/dev/null; then
        return
    fi
    base=$(find_python) || fail "Python 3.11 or newer is needed (set MLPOT_PYTHON to its path)"
    echo "Installing mlpot[$extras] into $root/.venv with $("$base" --version): a minute or two ..."
    if ! [ -x "$PYTHON" ] || ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        rm -rf "$root/.venv"
        # Debian keeps the pip of new environments in a package of its own (python3-venv).
        "$base" -m venv "$root/.venv" >/dev/null 2>&1 ||
            "$base" -m venv --clear --without-pip "$root/.venv" ||
            fail "the virtual environment cannot be made; on Debian: apt-get install python3-venv"
    fi
    local pip=("$PYTHON" -m pip)
    "${pip[@]}" --version >/dev/null 2>&1 || pip=("$base" -m pip --python "$PYTHON")
    "${pip[@]}" --version >/dev/null 2>&1 ||
        fail "pip is missing; on Debian: apt-get install python3-pip python3-venv"
    "${pip[@]}" install -qq --disable-pip-version-check \
        -c "$root/constraints.txt" -e "$root[$extras]" || fail "the installation failed"
    echo "$wanted" >"$stamp"
}

# Whether the documentation can be looked at in Chromium; installs it as `find_emulator_tools` does.
find_browser() {
    local candidate
    for candidate in chromium chromium-browser google-chrome chrome; do
        command -v "$candidate" >/dev/null && return 0
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing chromium ..."
        { apt-get install -qq -y --no-install-recommends chromium ||
            { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }
        } >/dev/null 2>&1 && return 0
    fi
    echo "Chromium is missing; on Debian: sudo apt-get install chromium" >&2
    return 1
}

# Whether GPU kernels can be checked without a GPU: clang with its sanitizers, on Linux. Installs
# them where that can be done without asking (as root with apt-get).
find_emulator_tools() {
    local packages=(clang-16 libclang-rt-16-dev llvm-16) version
    if [ "$(uname -s)" != Linux ]; then
        echo "The emulator of GPU kernels runs on Linux only." >&2
        return 1
    fi
    for version in 16 17 18 19 20 21 22 23; do
        if command -v "clang++-$version" >/dev/null && command -v "llvm-symbolizer-$version" >/dev/null; then
            return 0
        fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing ${packages[*]} ..."
        { apt-get install -qq -y --no-install-recommends "${packages[@]}" ||
            { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${packages[@]}"; }
        } >/dev/null 2>&1 && return 0
    fi
    echo "clang 16 is missing; on Debian: sudo apt-get install ${packages[*]}" >&2
    return 1
}
