#!/bin/sh
# TAP: the digests of bits.sh where each stage of the network runs on a host of its own: this machine under several
# names. The JSON of a run shows which ranks ran each stage. Goes on under another cut, loses a host, and what is
# refused.
. "$SRCDIR/tests/bits/hosts_lib.sh"

# Of the last run: the ranks of each stage that took shards through it, "0,1 2".
ranks_of_stages() {
  tail -n 1 "$folder/json" | sed -n 's/.*"stages": \[\(.*\)\], "workers".*/\1/p' | tr '{' '\n' | awk '
    /"first"/ { all = all (n++ ? " " : ""); first = 1 }
    match($0, /"rank": [0-9]+/) && $0 !~ /"stage_shards": 0,/ {
      all = all (first ? "" : ",") substr($0, RSTART + 8, RLENGTH - 8)
      first = 0
    }
    END { print all }'
}

# check_stages EXPERIMENT HOSTS THREADS ACCUMULATE RANKS STAGES OPTIONS...: RANKS: of each stage
check_stages() {
  of_ranks=$5 stages=$6
  set -- "$1" "$2" "$3" "$4" "${7-}" "${8-}"
  check_run "$1" "$2" "$3" "$4" --stages "$stages" --place-stages hosts ${5:+"$5"} ${6:+"$6"}
  found=$(ranks_of_stages)
  [ "$found" = "$of_ranks" ]
  result $? "$1 on $2: each of $stages stages ran on its host" "expected ranks $of_ranks, found $found"
}

check_stages adamw "a b" 1 1 "0 1" 2
check_stages norm "a a b" 2 1 "0,1 2" 2
check_stages mixed "a b c a b" 1 1 "0,3 1,4 2" 3 --schedule-stages gpipe # two replicas, and one
check_stages mixed "a a b" 1 4 "0 1 2" 3                                 # two stages on a host
check_stages shard "b a b" 1 2 "0,2 1" 2 --workers 2
check_stages rules "a b" 3 4 "0 0 1" 3 --eval-every 2
check_stages wide "a b b" 1 1 "0 1,2" auto
check_stages ended "a a b" 1 2 "0,1 2" 2
check_stages muon "a b c" 2 2 "0 0 1 1 2" 5
check_stages ema "a b" 2 1 "0 1" 2 --schedule-stages gpipe

# Stopped, goes on under another cut.
threads=1 accumulate=2
rm -rf "$folder/run"
# shellcheck disable=SC2086
train "a b" $adamw --max-steps 7 --stages 2 --place-stages hosts --out "$folder/run"
train "a b c" --resume "$folder/run" --max-steps 10 --stages 3 --place-stages hosts
# shellcheck disable=SC2154
check "stopped on two hosts, goes on on three" "a b c" "$adamw_digest"

# The first host draws a new head, which the last one has.
train a --model "$SRCDIR/tests/bits/fine_tune.yaml" --max-steps 3 --out "$folder/first"
head="--model $SRCDIR/tests/bits/fine_tune.yaml --init $folder/first/last/model.safetensors --head auto --lr 0.01"
# shellcheck disable=SC2086
train a $head --out "$folder/tuned"
wanted=$(values weights_sha256)
rm -rf "$folder/run"
# shellcheck disable=SC2086
train "a b" $head --stages 2 --place-stages hosts --out "$folder/run"
check "a new head on the last of two hosts" "a b" "$wanted"

# A host is lost inside of an epoch. All ranks end, and the run goes on under another cut, to the digest of one
# thread.
"$BUILDDIR/tests/bits/make_idx" "$data" 13800 50
# shellcheck disable=SC2086
"$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --threads 1 $adamw --out "$folder/whole" \
  --json >"$folder/json"
whole=$(values steps weights_sha256)
for lost in 1 2; do # the line of the rank that is killed
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  (over "a b" "$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --threads 1 $adamw --stages 2 \
    --place-stages hosts --out "$folder/run" >"$folder/lost" 2>"$folder/err") &
  child=$!
  while kill -0 "$child" 2>/dev/null && [ ! -e "$folder/run/step-432" ]; do sleep 0.01; done
  kill -KILL "$(sed -n 's/^rank [0-9]* pid \([0-9]*\) .*/\1/p' "$folder/lost" | sed -n "${lost}p")" 2>/dev/null
  wait "$child" && result fail "the run ended before rank $lost was killed"
  # shellcheck disable=SC2086
  mv "$folder/err" "$folder/err0"
  train "a b c" --resume "$folder/run" --stages 3 --place-stages hosts
  cat "$folder/err0" >>"$folder/err"
  [ "$(values steps weights_sha256)" = "$whole" ]
  result $? "rank $lost of two is lost, three hosts go on" \
    "expected $whole, found $(values steps weights_sha256) $(cat "$folder/err")"
done

refused() { # NAME HOSTS TEXT OPTIONS...
  name=$1 where=$2 text=$3
  shift 3
  rm -rf "$folder/run"
  train "$where" --out "$folder/run" --place-stages hosts "$@"
  grep -q "^heddle: .*$text" "$folder/err"
  result $? "refused: $name" "$(cat "$folder/err")"
}

# shellcheck disable=SC2086,SC2154
{
  refused "a weight of two hosts" "a b" "all layers that use 'conv2.weight' on one host" $shared --stages 2
  refused "a frozen weight of two hosts" "a b" "all layers that use 'conv2.weight' on one host" $shared --stages 2 \
    --parameters '[{match: "conv2.*", requires_grad: false}]'
  refused "layers that are trained later" "a b" 'found --unfreeze; leave one of them out' $adamw --stages 2 \
    --freeze 'conv1.*' --unfreeze 'conv1.*@1'
  refused "no stages" "a b" 'expects --stages' $adamw
  refused "more hosts than stages" "a b c" 'a stage for each of the 3 hosts, found 2' $adamw --stages 2
  refused "more stages than threads" "a b" 'a thread\|each of the 2 stages on every host' $adamw --stages 3
}
echo "1..$count"
