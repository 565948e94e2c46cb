#!/bin/sh
# Finds a Python that will do and hands it scripts/install.py. PYTHON=... in the environment names another one.
set -eu
cd "$(dirname "$0")/.."

# Asks instead of looking: a version manager's shim exists on the path also for a Python that is not installed.
# Answers "good", "no ensurepip", "old" or nothing.
judge() {
    "$1" -c '
import sys
if sys.version_info < (3, 11):
    print("old")
else:
    try:
        import ensurepip, venv
        print("good")
    except ImportError:
        print("no ensurepip")
' 2>/dev/null || true
}

# 3.11 first: the pins in constraints.txt were resolved with it.
incomplete=
for python in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
    case "$(judge "$python")" in
    good) exec "$python" scripts/install.py ;;
    "no ensurepip") incomplete=${incomplete:-$python} ;;
    esac
done

if [ -n "$incomplete" ]; then
    echo "error: $incomplete cannot create virtual environments: its modules venv and ensurepip are missing." >&2
    echo "On Debian and Ubuntu they come with: sudo apt install $incomplete-venv" >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "error: PYTHON=$PYTHON is not a Python 3.11 or later." >&2
else
    echo "error: no Python 3.11 or later was found on the path." >&2
    echo "Install one (for example: sudo apt install python3.11 python3.11-venv), or name it: make PYTHON=/path/to/python3" >&2
fi
exit 1
