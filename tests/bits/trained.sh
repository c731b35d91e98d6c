# What tests of digests share that train on all kinds of layouts: runs of experiments. $samples: how many there are to
# train on. Sourced.
. "$SRCDIR/tests/tap.sh"
. "$SRCDIR/tests/bits/experiments.sh"
data=$folder/data
extra= workers=0 ranks=1 kernels=

# To be run in a subshell, which becomes the process: the pid of a background job is then that of the run.
train() { # OPTIONS...
  # shellcheck disable=SC2086
  exec "$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --json --log-every 1 $extra "$@"
}

# Whether this machine has the instruction set; if not, a result gives the reason.
has_isa() { # ISA
  (HEDDLE_ISA=$1 train --model simplenet --max-steps 1 --out "$folder/probe-$1" >/dev/null 2>"$folder/err") && return
  if grep -q HEDDLE_ISA "$folder/err"; then result skip "$1: $(cat "$folder/err")"
  else result fail "$1" "$(cat "$folder/err")"; fi
  return 1
}

# Ends in the middle of the second epoch, by its end or by SIGKILL.
begin_run() { # HOW THREADS ACCUMULATE EXPERIMENT...
  how=$1 threads=$2 accumulate=$3
  shift 3
  if [ "$how" = stopped ]; then
    (train --threads "$threads" --accumulate "$accumulate" "$@" --max-steps 7 --out "$folder/run" >/dev/null)
    return
  fi
  # Its line of each step wakes this shell, which ends it once there is the third checkpoint: a loop without a pause
  # would take a CPU from the run, and a short run outruns a sleep. One that has ended before is begun again.
  for _ in 1 2 3 4 5; do
    rm -rf "$folder/run" "$folder/pipe" && mkfifo "$folder/pipe"
    train --threads "$threads" --accumulate "$accumulate" "$@" --save-every 1 --out "$folder/run" >"$folder/pipe" &
    child=$!
    exec 9<"$folder/pipe"
    while read -r _ <&9 && [ ! -e "$folder/run/step-3" ]; do :; done
    kill -KILL "$child" 2>/dev/null
    wait "$child" 2>/dev/null
    ended=$?
    exec 9<&-
    [ $ended != 137 ] || return 0
  done
  echo "it ended with $ended before it could be killed" >&2
  return 1
}

# lose WHICH OPTIONS...: a run whose ranks, all or the last one, are killed in its second epoch; $lost says whether they
# were. One that has ended before is begun again.
lose() {
  which=$1 lost=no tries=0
  shift
  while [ $lost = no ] && [ $((tries += 1)) -le 5 ]; do
    rm -rf "$folder/run" "$folder/pipe" && mkfifo "$folder/pipe" && : >"$folder/lines"
    train "$@" --max-steps 10 --save-every 1 --out "$folder/run" >"$folder/pipe" 2>"$folder/err" &
    child=$!
    exec 9<"$folder/pipe"
    while read -r line <&9 && echo "$line" >>"$folder/lines" && [ ! -e "$folder/run/step-6" ]; do :; done
    pids=$(sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' "$folder/lines")
    [ "$which" = all ] || pids=$(echo "$pids" | tail -n 1)
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
    cat <&9 >/dev/null
    wait "$child" 2>/dev/null || lost=lost
    exec 9<&-
  done
}

check_run() { # EXPERIMENT ISA THREADS ACCUMULATE HOW
  isa=$2 threads=$3 accumulate=$4 how=$5
  name="$isa, $threads threads${HEDDLE_THREAD_SPEEDS:+ of speeds $HEDDLE_THREAD_SPEEDS}, accumulate $accumulate, "\
"$how, $1"
  eval "wanted=\$$1_digest options=\$$1"
  # shellcheck disable=SC2086
  set -- $options
  rm -rf "$folder/run"
  HEDDLE_ISA=${kernels:-$isa}
  export HEDDLE_ISA
  if [ "$how" = whole ]; then
    (train --threads "$threads" --accumulate "$accumulate" "$@" --out "$folder/run" >"$folder/json" 2>"$folder/err")
  else
    begin_run "$how" "$threads" "$accumulate" "$@" 2>"$folder/err" &&
      (train --resume "$folder/run" --max-steps 10 --threads "$threads" --accumulate "$accumulate" >"$folder/json" \
        2>>"$folder/err")
  fi
  name="$name${extra:+, $extra}"
  found=$(values ranks workers isa threads accumulate steps weights_sha256)
  wanted="$ranks $workers $isa $threads $accumulate 10 $wanted"
  [ "$found" = "$wanted" ]
  result $? "$name" "expected $wanted, found $found $(cat "$folder/err")"
}

mkdir "$data"
"$BUILDDIR/tests/bits/make_idx" "$data" "${samples:-138}" 50 || { echo "Bail out! no data"; exit 1; }
# The fastest instruction set of this machine, for runs on which others have nothing to add.
(train --model simplenet --max-steps 1 --out "$folder/fastest" >"$folder/json")
fastest=$(values isa)
