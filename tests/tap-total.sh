#!/bin/sh
# TAP: tools/tap-total counts each test of each log once, as automake's driver writes them, and fails where one did.
. "$SRCDIR/tests/tap.sh"
echo 1..8

# log NAME LINE...: a log.
log() {
  name=$1
  shift
  printf '%s\n' "$@" >"$folder/$name.log"
}

# adds_up STATUS TOTAL WHAT NAME...: of the logs.
adds_up() {
  want="$1 $2"
  what=$3
  shift 3
  logs=
  for name; do logs="$logs $folder/$name.log"; done
  found=$("$SRCDIR/tools/tap-total" $logs) && status=0 || status=1
  [ "$status $found" = "$want" ]
  result $? "$what" "expected '$want', found '$status $found'"
}

log good 1..3 'ok 1 - one' 'PASS: tests/good 1 - one' 'ok 2 - two' 'PASS: tests/good 2 - two' 'ok 3 # SKIP no GPU' \
  'SKIP: tests/good 3 # SKIP no GPU'
log none '1..0 # SKIP bats is not installed' 'SKIP: tests/none - bats is not installed'
log bad 1..2 'ok 1 - one' 'PASS: tests/bad 1 - one' 'not ok 2 - two' 'FAIL: tests/bad 2 - two' \
  'ERROR: tests/bad - exited with status 1'
log crashed 1..1 'ok 1 - one' 'PASS: tests/crashed 1 - one' \
  'ERROR: tests/crashed - exited with status 139 (terminated by signal 11?)'
log short 1..2 'ok 1 - one' 'PASS: tests/short 1 - one' 'ERROR: tests/short - too few tests run (expected 2, got 1)' \
  'ERROR: tests/short - exited with status 134 (terminated by signal 6?)'
log bailed 1..2 'ok 1 - one' 'PASS: tests/bailed 1 - one' 'Bail out! out of memory' \
  'ERROR: tests/bailed - Bail out! out of memory'
adds_up 0 "2 passed, 0 failed, 2 skipped" "what passed and what was skipped" good none
adds_up 1 "0 passed, 0 failed, 1 skipped" "where nothing ran, nothing is proven" none
adds_up 1 "1 passed, 1 failed, 0 skipped" "a test that failed counts once" bad
adds_up 1 "1 passed, 1 failed, 0 skipped" "a program that crashed after its last test has failed" crashed
adds_up 1 "1 passed, 1 failed, 0 skipped" "one that crashed before has, once" short
adds_up 1 "1 passed, 1 failed, 0 skipped" "one that gave up has, once" bailed
adds_up 1 "5 passed, 3 failed, 1 skipped" "each log is counted by itself" bad crashed good short

printf '%s\n' ':test-result: PASS' ':seconds: 9.5 3.2' >"$folder/good.trs"
printf '%s\n' ':seconds: 11.0 0.1' >"$folder/bad.trs"
found=$(cd "$folder" && "$SRCDIR/tools/tap-total" good.log bad.log crashed.log)
want="11.0 s, 0.1 s of CPU: bad
9.5 s, 3.2 s of CPU: good
4 passed, 2 failed, 1 skipped"
[ "$found" = "$want" ]
result $? "what took longest comes first" "$found"
