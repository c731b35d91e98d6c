#!/bin/sh
# TAP: ranks that are lost, over and over: in HD_LOST runs (100) a rank, chosen at random, gets SIGKILL or SIGSTOP at a
# moment chosen at random; in HD_ALL_LOST runs (20) all of them get SIGKILL at once. Each time all others are gone
# within a second, the right rank is named, the last whole step is saved, nothing is left in /dev/shm, /tmp or the
# process table, and the resumed run ends in the digest of an undisturbed one. Then 20 jobs run at once. `make
# check-long` runs it: it takes minutes and needs an idle machine.
. "$SRCDIR/tests/tap.sh"
cd "$folder" || exit 1
mkdir tmp
TMPDIR=$folder/tmp
export TMPDIR
options="--model simplenet --epochs 1000 --threads 1 --log-every 10"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

digest_of() { sed -n 's/^weights_sha256 *//p'; }

random_below() { # N
  echo $(($(od -An -N4 -tu4 /dev/urandom) % $1))
}

# What the processes of the last run left behind; older files are of other processes with the same numbers.
traces() {
  ls -A "$folder/tmp"
  for pid in $pids $parent; do
    for left in /dev/shm/*_"$pid"_* /dev/shm/*"$pid"; do
      [ ! "$left" -nt begun ] || echo "$left"
    done
    [ ! -e "/proc/$pid" ] || cat "/proc/$pid/stat"
  done
}

# Starts RANKS ranks; waits until step MOMENT has been logged; their pids are in $pids.
begin() { # RANKS MOMENT
  rm -rf run out
  touch begun
  # shellcheck disable=SC2086
  "$HEDDLE" train $options --procs "$1" --out run >out 2>err &
  parent=$!
  until grep -q "step $2:" out 2>/dev/null; do
    kill -0 $parent 2>/dev/null || { cat err; return 1; }
  done
  pids=$(sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' out)
}

# Until all of PIDS are gone; $took is how long that took, in milliseconds.
await_gone() { # PIDS...
  from=$(now_ms)
  for pid; do
    while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do
      [ $(($(now_ms) - from)) -lt 20000 ] || break
    done
  done
  took=$(($(now_ms) - from))
}

# What is wrong with the run that was lost; nothing: all is well.
examine() { # PATTERN
  grep -Eq "^heddle: $1" err || echo "expected '$1', found: $(cat err)"
  step=$(readlink run/last)
  step=${step#step-}
  grep -q "saved step $step in" err || echo "expected step $step to be the last: $(cat err)"
  left=$(traces)
  [ -z "$left" ] || echo "left behind: $left"
  end=$((step + 25))
  digest=$("$HEDDLE" train --resume run --procs $((1 + $(random_below 4))) --max-steps $end 2>&1 | digest_of)
  rm -rf whole
  # shellcheck disable=SC2086
  undisturbed=$("$HEDDLE" train $options --max-steps $end --out whole | digest_of)
  [ -n "$digest" ] && [ "$digest" = "$undisturbed" ] ||
    echo "expected $undisturbed at step $end of the resumed run, found $digest"
}

run=0
while [ $run -lt "${HD_LOST:-100}" ]; do
  run=$((run + 1))
  ranks=$((2 + $(random_below 3)))
  lost=$(random_below $ranks)
  signal=KILL says="was killed by signal 9"
  [ "$(random_below 2)" = 0 ] || signal=STOP says="is stopped"
  name="run $run: rank $lost of $ranks gets SIG$signal"
  begin $ranks $((10 * (1 + $(random_below 60)))) || { result fail "$name" "it did not begin"; continue; }
  victim=$(echo "$pids" | sed -n "$((lost + 1))p")
  kill -$signal "$victim"
  # shellcheck disable=SC2046
  await_gone $(echo "$pids" | grep -vx "$victim")
  wait $parent 2>/dev/null
  trouble=$(examine "rank $lost \(pid $victim on [^)]*\) $says")
  [ $took -lt 1000 ] || trouble="$trouble the others took $took ms"
  if [ -z "$trouble" ]; then result pass "$name, the others are gone after $took ms"
  else result fail "$name" "$trouble"; fi
done
run=0
while [ $run -lt "${HD_ALL_LOST:-20}" ]; do
  run=$((run + 1))
  ranks=$((2 + $(random_below 3)))
  name="run $run: all $ranks ranks get SIGKILL"
  begin $ranks $((10 * (1 + $(random_below 60)))) || { result fail "$name" "it did not begin"; continue; }
  # shellcheck disable=SC2086
  kill -KILL $pids
  wait $parent 2>/dev/null
  trouble=$(examine "rank [0-9]+ \(pid [0-9]+ on [^)]*\) was killed by signal 9")
  if [ -z "$trouble" ]; then result pass "$name"; else result fail "$name" "$trouble"; fi
done

# Twenty jobs of four ranks at once, where there is no network: all end, in one digest, and none accuses another.
cut=
unshare -n true 2>/dev/null && cut="unshare -n"
mkdir jobs
# shellcheck disable=SC2016
$cut sh -c 'for job in $(seq 20); do
  "$HEDDLE" train --model mlp --epochs 1 --max-steps 300 --procs 4 --threads 1 --out jobs/$job \
    >jobs/$job.out 2>jobs/$job.err &
done; wait'
digests=$(cat jobs/*.out | digest_of | sort | uniq -c | sed 's/^ *//; s/ .*//')
accused=$(cat jobs/*.err | grep 'rank [0-9]')
if [ "$digests" = 20 ] && [ -z "$accused" ]; then result pass "20 jobs of 4 ranks${cut:+ without a network}"
else result fail "20 jobs of 4 ranks" "expected 20 runs of one digest, found $digests; $accused"; fi
echo "1..$count"
