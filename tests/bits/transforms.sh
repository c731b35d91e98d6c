#!/bin/sh
# TAP: samples in a random or a balanced order that go through random transforms are the same ones whatever the layout: threads x accumulation x instruction set x
# loader workers x resume within an epoch, by a run's own end or after SIGKILL, over two epochs with a ragged last batch.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-transforms.XXXXXX")
trap 'rm -rf "$folder"' EXIT
data=$folder/data
count=0
workers=0

# The constants. To change one is to change what every user computes: say why in the commit.
soft_digest=dc203379ccbaf0fc6ab5d144b85bce844366b9a70cb75792955a183e3b72940d
labels_digest=00bb3472b9b0881a513f6b777db97d3d8e5288085c301f41fd5721e6f732d47f
balanced_digest=0c38ec01fd11e647c20f16664b673204af6408931ddbb0634e1ee2b81af206d5
mixed_digest=1e83f35888b8e98bebfc899c272edab191a2c9d500195c38e73b22564648f812
labels="--model $SRCDIR/tests/bits/tiny.yaml --transforms $SRCDIR/tests/bits/transforms.yaml --val-split 0.1"
balanced="--model $SRCDIR/tests/bits/tiny.yaml --sampler balanced --transforms $SRCDIR/tests/bits/transforms.yaml"
soft="--model $SRCDIR/tests/bits/tiny.yaml --label-smoothing 0.1 --transforms $SRCDIR/tests/bits/probabilities.yaml"
mixed="--model $SRCDIR/tests/bits/soft.yaml --config $SRCDIR/tests/bits/mixed_samples.yaml"

result() { # pass|fail NAME [DETAIL]
  count=$((count + 1))
  case $1 in
  pass) echo "ok $count - $2" ;;
  skip) echo "ok $count # SKIP $2" ;;
  *) echo "not ok $count - $2"; echo "# $3" ;;
  esac
}

# value KEY FILE: a key of the JSON in the last line.
value() { tail -n 1 "$2" | sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# To be run in a subshell, which becomes the process: that of a background job is then its own to kill.
train() { # OPTIONS...
  exec "$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --optimizer adamw --lr 0.01 --json --log-every 1 \
    --workers $workers "$@"
}

# Ends in the middle of the second epoch, or is killed behind the third step's checkpoint.
begin_run() { # HOW THREADS ACCUMULATE EXPERIMENT...
  how=$1 threads=$2 accumulate=$3
  shift 3
  if [ "$how" = stopped ]; then
    (train --threads "$threads" --accumulate "$accumulate" "$@" --max-steps 7 --out "$folder/run" >/dev/null)
    return
  fi
  train --threads "$threads" --accumulate "$accumulate" "$@" --save-every 1 --out "$folder/run" >/dev/null &
  child=$!
  while kill -0 "$child" 2>/dev/null && [ ! -e "$folder/run/step-3" ]; do :; done
  kill -KILL "$child" 2>/dev/null
  wait "$child" 2>/dev/null
  return 0
}

check_run() { # EXPERIMENT ISA THREADS ACCUMULATE HOW
  isa=$2 threads=$3 accumulate=$4 how=$5
  name="$isa, $threads threads, $workers workers, accumulate $accumulate, $how, $1"
  eval "wanted=\$$1_digest options=\$$1"
  # shellcheck disable=SC2086
  set -- $options
  rm -rf "$folder/run"
  HEDDLE_ISA=$isa
  export HEDDLE_ISA
  if [ "$how" = whole ]; then
    (train --threads "$threads" --accumulate "$accumulate" "$@" --out "$folder/run" >"$folder/json" 2>"$folder/err")
  else
    begin_run "$how" "$threads" "$accumulate" "$@" 2>"$folder/err" &&
      (train --resume "$folder/run" --max-steps 10 --threads "$threads" --accumulate "$accumulate" >"$folder/json" 2>>"$folder/err")
  fi
  found="$(value workers "$folder/json") $(value isa "$folder/json") $(value threads "$folder/json") $(value accumulate "$folder/json") $(value steps "$folder/json") $(value weights_sha256 "$folder/json")"
  if [ "$found" = "$workers $isa $threads $accumulate 10 $wanted" ]; then result pass "$name"
  else result fail "$name" "expected $workers $isa $threads $accumulate 10 $wanted, found $found $(cat "$folder/err")"; fi
}

mkdir "$data"
"$BUILDDIR/tests/bits/make_idx" "$data" 150 50 || { echo "Bail out! no data"; exit 1; }
turn=0
for isa in reference scalar avx2 avx512 neon; do
  (HEDDLE_ISA=$isa train --model simplenet --max-steps 1 --out "$folder/probe-$isa" >/dev/null 2>"$folder/err") || {
    if grep -q HEDDLE_ISA "$folder/err"; then result skip "$isa: $(cat "$folder/err")"
    else result fail "$isa" "$(cat "$folder/err")"; fi
    continue
  }
  for threads in 1 2 3 4; do
    for accumulate in 1 2 4; do
      turn=$((turn + 1))
      case ${HD_BITS:-pairs} in
      all) hows="whole stopped killed" ;;
      *) case $(((turn + threads) % 3)) in 0) hows=whole ;; 1) hows=stopped ;; *) hows=killed ;; esac ;;
      esac
      for how in $hows; do
        check_run labels "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" = 4 ] || [ "$hows" != "$how" ] || check_run soft "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" != 2 ] || [ "$hows" != "$how" ] || check_run balanced "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" = 2 ] || [ "$hows" != "$how" ] || check_run mixed "$isa" "$threads" "$accumulate" "$how"
      done
    done
  done
done

# What a checkpoint evaluates to is what its run did, and a resumed run keeps to its transforms.
evaluated=$("$HEDDLE" eval "$folder/run" --data "$data" --json | tail -n 1)
run=$(tail -n 1 "$folder/json")
for key in loss accuracy; do
  echo "$evaluated" >"$folder/evaluated"
  if [ "$(value $key "$folder/evaluated")" = "$(value test_$key "$folder/json")" ]; then result pass "heddle eval finds the run's $key"
  else result fail "heddle eval finds the run's $key" "run $run, eval $evaluated"; fi
done
(train --resume "$folder/run" --transforms '[to_float]' --max-steps 12 >"$folder/json" 2>"$folder/err")
if grep -q "expected transforms .* as in that run, found \[to_float\]" "$folder/err"; then result pass "other transforms are refused"
else result fail "other transforms are refused" "$(cat "$folder/err")"; fi
for workers in 1 2 8; do
  for threads in 1 2 5; do
    for how in whole stopped killed; do
      check_run labels scalar $threads 1 $how
      [ $how = killed ] || check_run mixed scalar $threads 4 $how
      [ $how = whole ] || check_run balanced scalar $threads 2 $how
    done
  done
done
echo "1..$count"
