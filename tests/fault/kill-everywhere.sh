#!/bin/sh
# TAP: a small run, alone and with two ranks, is killed at its first system call that changes a file, at its second, and
# so on to the last one; and in the same way at each mmap and futex. It then goes on, from what was saved or from the
# beginning, alone or with two ranks, and its digest, `best`, `last` and metrics are those of an undisturbed run. The
# run saves between and at the ends of epochs, evaluates, and ends by --patience.
#
# `make check` takes some of the calls, `make check-long` all of them, which is minutes.
. "$SRCDIR/tests/tap.sh"
cd "$folder" || exit 1
kill_at=$BUILDDIR/tests/fault/kill_at
program=$BUILDDIR/.libs/heddle # what libtool's script starts: the shell's calls are not the run's
[ -x "$program" ] || program=$HEDDLE
LD_LIBRARY_PATH=$BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 # it looks for leaks by ptrace, which is taken
export LD_LIBRARY_PATH ASAN_OPTIONS
options="--model simplenet --data $folder/data --batch 8 --val-split 0.25 --patience 1 --lr 0.5 --epochs 6
  --save-every 2 --log-every 1 --shards 8 --threads 1 --out run --json"

# metrics FOLDER: without what time measures.
metrics() {
  sha256sum <"$1/losses.bin"; sed 's/"samples_per_s":[^,}]*//; s/"ranks":\[.*\]//; s/,,*/,/g' "$1/metrics.jsonl"
}

# what FOLDER JSON: all that has to be as in an undisturbed run.
what() {
  value weights_sha256 "$2"
  echo "best $(readlink "$1/best") last $(readlink "$1/last")"
  "$HEDDLE" digest "$1/best"
  metrics "$1"
  ls -A "$1" | grep '\.tmp' # and nothing half-written
}

# One run that is killed at call $2 of kind $1, with the ranks $3, and goes on with the ranks $4.
kill_and_go_on() {
  rm -rf run
  # shellcheck disable=SC2086
  "$kill_at" "$1" "$2" "$program" train $options --procs "$3" >out 2>err
  code=$?
  killed=$(tail -n 1 err)
  case $code$killed in 0killed*) ;; *) return $code ;; esac
  if [ -e run/last ]; then
    "$program" train --resume run --procs "$4" --threads 1 --json >json 2>err
  else # shellcheck disable=SC2086
    "$program" train $options --procs "$4" >json 2>err
  fi
  what run json >found
  cmp -s found wanted
}

sweep() { # KIND RANKS STRIDE
  n=1 kills=0 bad=0
  while :; do
    kill_and_go_on "$1" "$n" "$2" $((1 + n % 2))
    code=$?
    case $code in
    0) ;;
    1)
      bad=$((bad + 1))
      echo "# call $n, $killed: $(cat err; diff wanted found | head -n 8 | tr '\n' '|')"
      ;;
    *) break ;; # 3: it came to its end; 77: it cannot be traced; else the tool prints why
    esac
    kills=$((kills + 1)) n=$((n + $3))
  done
  if [ $code -eq 77 ]; then
    result skip "this system does not allow to trace a process"
  elif [ $code -eq 3 ] && [ $bad -eq 0 ] && [ $kills -gt 0 ]; then
    result pass "$2 ranks, killed $kills times at $1, to the last call (${killed#calls }): all goes on as if "\
"undisturbed"
  else
    result fail "$2 ranks, killed $kills times at $1 ($killed)" "$bad of them differ"
  fi
}

mkdir data && "$BUILDDIR/tests/bits/make_idx" "$folder/data" 64 24 || exit 1
# shellcheck disable=SC2086
"$program" train $options >json 2>err || cat err
what run json >wanted
steps=$(value steps json)
if [ "${steps:-0}" -ge 12 ] && [ "$steps" -lt 36 ] && grep -q "^best step-[0-9]* last step-$steps\$" wanted; then
  result pass "an undisturbed run ends by --patience, after $steps steps"
else
  result fail "an undisturbed run ends by --patience" "$(cat err wanted)"
fi
files=41 waits=123
[ "$depth" -lt 3 ] || files=1 waits=1
for ranks in 1 2; do
  sweep files $ranks $files
  sweep waits $ranks $waits
done
echo "1..$count"
