#!/bin/sh
# TAP: tests/cli/run-bats: which tests pass, fail and are skipped, and what is said of those that fail.
. "$SRCDIR/tests/tap.sh"
cd "$folder" || exit 1
cat >some.bats <<'FILE'
load shared
setup_file() { export ALL=all; }
setup() { [ "$ALL" = all ]; echo begun; }
teardown() { [ ! -e torn ]; }

@test "passes" {
  greeting
  run sh -c "echo a; echo b; exit 3"
  [ "$status" -eq 3 ] && [ "${lines[1]}" = b ] && [ "$output" = $'a\nb' ]
  echo unseen
}
@test "fails in the middle" {
  greeting
  [ 1 = 2 ]
  touch beyond
}
@test "fails in a function of another file" {
  breaks
  touch beyond
}
@test "fails by its last command" {
  ! true
}
@test "ends early" {
  exit 0
}
@test "is skipped" {
  skip "no reason"
  false
}
@test "fails after its end" {
  touch torn
}
@test "is killed" {
  rm torn
  kill -KILL $BASHPID
}
FILE
printf '%s\n' 'greeting() { echo hello; }' 'breaks() {' '  false' '  touch beyond' '}' >shared.bash
cat >expected <<'END'
1..8
ok 1 passes
not ok 2 fails in the middle
# hello
# (some.bats, line 14) [ 1 = 2 ]
not ok 3 fails in a function of another file
# (shared.bash, line 3) false
not ok 4 fails by its last command
# (run-bats) its last command
not ok 5 ends early
ok 6 is skipped # skip no reason
not ok 7 fails after its end
not ok 8 is killed
END
bash "$SRCDIR/tests/cli/run-bats" "$PWD/some.bats" >out 2>err
code=$?
sed '/^# begun$/d; s/(run-bats, line [0-9]*)/(run-bats)/' out | cmp -s expected && [ $code -eq 1 ]
result $? "each test passes, fails or is skipped; what failed is named" "exit code $code: $(cat out err)"
[ ! -e beyond ]
result $? "none goes on behind its first failure" "$(cat out)"
bash "$SRCDIR/tests/cli/run-bats" "$PWD/some.bats" "is " >out 2>&1
[ "$(grep -c 'ok' out)" -eq 2 ] && grep -q '^ok 1 is skipped' out
result $? "words choose tests" "$(cat out)"
printf '@test "one" {\n  true\n}\n@test two {\n  true\n}\n' >odd.bats
! bash "$SRCDIR/tests/cli/run-bats" "$PWD/odd.bats" >out 2>&1 && grep -q '^Bail out!' out
result $? "a test that would be left out is an error" "$(cat out)"
echo "1..$count"
