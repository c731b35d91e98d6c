# Common to the tests of the command. Each test works in a new folder, which is removed when it ends.
#
# Nothing here waits for time: await_line reads a program's output until the line has come, and gives up after LIMIT_S
# seconds.

LIMIT_S=180
WHERE=${TMPDIR:-/tmp} # its folder is there
FEW=$BATS_FILE_TMPDIR/few # 3,840 of the built-in digits and 600 to test: drawing them all takes longer than a tiny run
TINY="--model simplenet --max-steps 50 --data $FEW"
ENDLESS="--model simplenet --data random:1x28x28 --batch 8 --epochs 1000000 --log-every 20" # epochs of 1,024 steps

setup() {
  [ -d "$FEW" ] || { mkdir "$FEW" && "$BUILDDIR/tests/bits/make_idx" "$FEW" 3840 600; }
  FOLDER=$(mktemp -d "$WHERE/heddle-cli.XXXXXX")
  cd "$FOLDER" || return 1
  unset COLUMNS HEDDLE_ISA HEDDLE_DATA HEDDLE_BLAS HEDDLE_SYSROOT HEDDLE_THREAD_SPEEDS HWLOC_SYNTHETIC HWLOC_XMLFILE \
    OPENBLAS_CORETYPE OMP_NUM_THREADS NO_COLOR
  export HOME=$FOLDER
}

teardown() {
  cd /
  [ -z "$CHILD" ] || kill -KILL "$CHILD" 2>/dev/null || true
  [ -z "$MOUNTED" ] || umount "$MOUNTED"
  chmod -R u+rwx "$FOLDER"
  rm -rf "$FOLDER"
}

# digest_of FILE: the digest in the text that train printed.
digest_of() {
  sed -nE 's/^weights_sha256 +([0-9a-f]{64})$/\1/p' "$1" | grep . || echo "no digest in $1"
}

# is_verified RUN: its certificate, made now, is confirmed.
is_verified() {
  "$HEDDLE" certify "$1" >out && "$HEDDLE" verify "$1/certificate.json" >out && grep -q verified out
}

# tensor_of FILE NAME: the SHA-256 of a tensor in a file of safetensors whose other tensors are not asked for.
tensor_of() {
  local header bytes from to
  bytes=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
  header=$(tail -c +9 "$1" | head -c "$bytes")
  header=${header#*\"$2\":*\"data_offsets\":\[}
  from=${header%%,*} to=${header#*,} to=${to%%]*}
  [ "$to" -gt "$from" ] || return 1
  tail -c +$((9 + bytes + from)) "$1" | head -c $((to - from)) | sha256sum
}

# train ARGS...: a tiny run; what it prints in `out`, JSON last, and its digest in DIGEST.
train() {
  "$HEDDLE" train $TINY --json "$@" >out 2>err || { cat out err; return 1; }
  DIGEST=$(digest_of out)
}

# fails CODE ARGS...: heddle ARGS must end with CODE and print one line "heddle: ..." on standard error: expected and
# found, or a remedy after a semicolon. The line is left in $message.
fails() {
  local wanted=$1 code=0 said
  shift
  timeout "$LIMIT_S" "$HEDDLE" "$@" >out 2>err || code=$?
  mapfile said <err
  message=${said[0]%$'\n'}
  [ "$code" -eq "$wanted" ] || { echo "heddle $*: expected exit code $wanted, found $code: ${said[*]}"; return 1; }
  [ "${#said[@]}" -eq 1 ] && [ "$message" != "${said[0]}" ] ||
    { echo "heddle $*: expected one line of error, found: ${said[*]}"; return 1; }
  [[ "$message" == "heddle: "*expect*found* || "$message" == "heddle: "*"; "* ]] ||
    { echo "heddle $*: expected 'heddle: ... expected ..., found ...', found: $message"; return 1; }
}

# says TEXT...: the last failure's message holds each text.
says() {
  local text
  for text; do
    [[ "$message" == *"$text"* ]] || { echo "expected '$text' in the message, found: $message"; return 1; }
  done
}

# refuses: each line of standard input is a call that fails, as `fails` takes it, and what its message says:
# CODE ARGS... | TEXT | TEXT...
refuses() {
  local row
  while read -r row; do
    eval "fails ${row%% | *}" </dev/null || return 1
    while [[ "$row" == *" | "* ]]; do
      row=${row#* | }
      says "${row%% | *}" || return 1
    done
  done
}

# No file or folder of an unfinished write below FOLDER... (by default here).
nothing_half_written() {
  local found
  found=$(find "${@:-.}" -name '.*tmp*')
  [ -z "$found" ] || { echo "expected no temporary file, found: $found"; return 1; }
}

# errors FILE...: the lines of standard error that report failures: all but warnings of threads that share CPUs,
# which a machine with enough CPUs does not have.
errors() {
  cat "$@" | grep -v '^heddle: warning: .* threads share ' || true
}

# no COMMAND ARGS...: it must fail. (A plain `! COMMAND` never fails a test.)
no() {
  ! "$@"
}

# need_terminal: for tests that play a program's user by on_terminal. A system without /dev/pts has no terminals.
need_terminal() {
  "$BUILDDIR/tests/cli/on_terminal" 2>no-terminal || skip "$(cat no-terminal)"
}

# json_get PATH...: values in the last line of standard input, in one line, texts without quotes. A path is keys and
# indices, separated by dots. json_keys: the keys of the object there. Both fail where it is not JSON.
json_get() { "$BUILDDIR/tests/cli/json_get" "$@"; }
json_keys() { "$BUILDDIR/tests/cli/json_get"; }

# start ARGS...: heddle train ARGS in the background, its process in CHILD, its output for await_line.
start() {
  rm -f pipe
  mkfifo pipe
  "$HEDDLE" train "$@" >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
}

# await_line PATTERN: reads the output of start until a line matches, then leaves it in $line.
await_line() {
  while read -r -t "$LIMIT_S" -u 9 line; do
    [[ "$line" =~ $1 ]] && return 0
  done
  echo "expected a line like '$1' within $LIMIT_S s, found none: $(cat err)"
  return 1
}

# finish: reads the rest, waits for the end; the exit code is in $code.
finish() {
  cat <&9 >rest
  exec 9<&-
  code=0
  wait "$CHILD" || code=$?
  CHILD=
}
