#!/bin/sh
# TAP: heddle on every row of the museum, and docs/museum.md against both.
if [ -z "${TMPDIR-}" ] && [ -w /dev/shm ]; then TMPDIR=/dev/shm; export TMPDIR; fi
. "$SRCDIR/tests/tap.sh"

python=${HEDDLE_PYTHON:-python3}
if ! "$python" -c 'import ctypes, dataclasses, zlib' 2>"$folder/err"; then
  result skip "$python: $(tail -n 1 "$folder/err")"
  echo "1..$count"
  exit 0
fi
TMPDIR=$folder PYTHONDONTWRITEBYTECODE=1
export TMPDIR PYTHONDONTWRITEBYTECODE
"$python" "$SRCDIR/tests/museum/try_heddle.py" "$HEDDLE" "$SRCDIR/docs/museum.md"
