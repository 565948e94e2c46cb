#!/bin/sh
# Installs Debian's Chromium, in which the console's page is tested. Without it those tests are skipped, and say so.
set -eu

if command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Note: Chromium is not installed, so the page is not tested. On Debian: sudo apt-get install chromium" >&2
    exit 0
fi
echo "Installing Chromium"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "Note: Chromium could not be installed, so the page is not tested." >&2
fi
