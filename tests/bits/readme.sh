#!/bin/sh
# TAP: the README's digest is that of its command.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-readme.XXXXXX")
trap 'rm -rf "$folder"' EXIT
wanted=$(grep -o 'weights_sha256  [0-9a-f]*' "$SRCDIR/README.md")
accuracy=$(grep -o 'test accuracy .*' "$SRCDIR/README.md")
echo 1..3
"$HEDDLE" train --out "$folder/run" >"$folder/out" 2>&1
found=$(grep 'weights_sha256' "$folder/out")
if [ -n "$wanted" ] && [ "$found" = "$wanted" ]; then echo "ok 1 - $wanted"
else echo "not ok 1 - the digest"; echo "# expected '$wanted', found '$found'"; fi
if [ -n "$accuracy" ] && grep -qxF "$accuracy" "$folder/out"; then echo "ok 2 - $accuracy"
else echo "not ok 2 - the accuracy"; echo "# expected '$accuracy', found: $(cat "$folder/out")"; fi
if [ "$("$HEDDLE" digest "$folder/run")" = "${wanted#weights_sha256  }" ]; then echo "ok 3 - heddle digest agrees"
else echo "not ok 3 - heddle digest agrees"; fi
