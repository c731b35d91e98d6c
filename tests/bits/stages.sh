#!/bin/sh
# TAP: the digests of bits.sh where the network is cut into stages: stages x replicas x threads x schedule x
# accumulation x instruction set, over loader workers, resumed under another cut and after a kill. The JSON of a run
# shows that each stage ran, with as many ranks as stages in processes of its own. Every cut of a built-in model in two
# gives the digest of the whole.
. "$SRCDIR/tests/bits/trained.sh"

# Of the last run: its stages, then 1 if a rank of one ran nothing, then 1 if two stages ran in one process.
stages_ran() {
  tail -n 1 "$folder/json" | sed -n 's/.*"stages": \[\(.*\)\], "workers".*/\1/p' | tr '{' '\n' | awk '
    /"first"/ { stages++ }
    /"pid"/ {
      pid = $0; sub(/.*"pid": /, "", pid); sub(/,.*/, "", pid)
      if ($0 ~ /"stage_shards": 0,/) idle = 1
      if (pid in stage && stage[pid] != stages) together = 1
      stage[pid] = stages
    }
    END { print stages + 0, idle + 0, together + 0 }'
}

# check_stages EXPERIMENT ISA STAGES RANKS THREADS ACCUMULATE HOW OPTIONS...: threads of each rank
check_stages() {
  experiment=$1 set=$2 stages=$3 ranks=$4 threads=$5 accumulate=$6 how=$7
  shift 7
  extra="--stages $stages${*:+ $*}"
  [ "$ranks" = 1 ] || extra="$extra --procs $ranks"
  each="$stages 0 $([ "$ranks" -ge "$stages" ] && echo 0 || echo 1)" tries=0
  # A run that is to be killed may end before: then its last part has no shards, and it is repeated.
  while [ $((tries += 1)) -le 4 ]; do
    check_run "$experiment" "$set" "$threads" "$accumulate" "$how"
    [ "$(stages_ran)" != "$each" ] || break
  done
  [ "$(stages_ran)" = "$each" ]
  result $? "each of $stages stages ran" "expected $each, found $(stages_ran)"
}

for isa in scalar avx2 avx512 neon; do
  extra=
  has_isa $isa || continue
  check_stages adamw $isa 2 1 2 1 whole
  check_stages mixed $isa 3 1 4 1 whole --schedule-stages gpipe
done
second=reference # slow
[ "$depth" -ge 2 ] || second=$fastest
# One process: threads of a stage differ in number.
for experiment in adamw sgd mixed norm shard shared rules wide several ended muon ema; do
  check_stages $experiment "$fastest" 2 1 3 1 whole
  check_stages $experiment "$second" 2 1 2 2 stopped --schedule-stages gpipe
done
for experiment in adamw sgd mixed norm shard several rules muon; do
  check_stages $experiment "$fastest" 3 1 5 4 whole
done
check_stages adamw "$fastest" 4 1 4 1 whole
workers=2
check_stages adamw "$fastest" 4 1 8 1 killed --workers 2 --schedule-stages gpipe
workers=0

# Every cut in two, and four stages: the digest of the whole network on one thread.
check_cuts() { # MODEL, whose layers are a line each: the digests of all cuts are that of the whole
  train_model() {
    (train --model "$1" --max-steps 2 --threads "$2" --out "$folder/cut" >"$folder/json" 2>"$folder/err")
  }
  extra= layers=0 cuts=0 wrong=
  rm -rf "$folder/cut"
  train_model "$1" 1
  whole=$(values weights_sha256)
  lines=$(grep -c '^ *- [a-z0-9_]*: {op' "$1")
  while [ $layers -lt $((lines - 1)) ]; do
    layers=$((layers + 1))
    awk -v at=$layers '/^ *- [a-z0-9_]*: \{op/ && n++ == at { sub(/\{op/, "{stage: 1, op") } 1' "$1" >"$folder/cut.yaml"
    rm -rf "$folder/cut"
    train_model "$folder/cut.yaml" 2
    if grep -q "^heddle:.*stage" "$folder/err"; then continue; fi # nothing to train on one side, or inside of a fusion
    cuts=$((cuts + 1))
    [ "$(values weights_sha256) $(stages_ran)" = "$whole 2 0 1" ] || wrong="$wrong $layers:$(values weights_sha256)"
  done
  [ -n "$whole" ] && [ -z "$wrong" ] && [ $cuts -ge "$2" ]
  result $? "$(basename "$1"): all $cuts cuts in two" "expected $whole, at least $2 cuts; found$wrong"
}
[ "$depth" -lt 2 ] || check_cuts "$SRCDIR/data/models/cnn.yaml" 4
check_cuts "$SRCDIR/data/models/mlp.yaml" 1
[ "$depth" -lt 2 ] || check_cuts "$SRCDIR/data/models/lenet5.yaml" 4
check_cuts "$SRCDIR/tests/bits/tiny.yaml" 5
check_cuts "$SRCDIR/tests/bits/mixed.yaml" 9

# Units of several shards, which threads of a stage begin and end in the middle of.
check_units() { # DIGEST
  for layout in "2 2" "3 2" "5 2 --schedule-stages gpipe" "7 3" "8 3 --schedule-stages gpipe"; do
    # shellcheck disable=SC2086
    set -- "$1" $layout # digest, threads, stages, more
    rm -rf "$folder/run"
    extra="--stages $3 ${4-} ${5-}"
    (train --model "$SRCDIR/tests/bits/units.yaml" --threads "$2" --out "$folder/run" >"$folder/json" 2>"$folder/err")
    found="$(values threads weights_sha256) $(stages_ran)"
    [ "$found" = "$2 $1 $3 0 1" ]
    result $? "units of four shards, $2 threads, $extra" "expected $2 $1 $3 0 1, found $found $(cat "$folder/err")"
  done
}
check_units a82b06f1bea1f085d71bc55a581f2d06b2f4579a7e50bc15584ee03e62a77cc6

if [ -n "${NO_RANKS-}" ]; then
  result skip "ranks: $NO_RANKS"
  echo "1..$count"
  exit 0
fi
for experiment in adamw mixed norm several; do
  check_stages $experiment "$fastest" 2 2 1 1 whole
  check_stages $experiment "$fastest" 2 4 1 2 whole --schedule-stages gpipe # two replicas
done
check_stages sgd "$fastest" 3 3 2 1 whole
check_stages muon "$fastest" 2 3 1 1 whole # one replica of a stage, two of the other
check_stages adamw "$fastest" 4 2 2 1 whole
workers=2
check_stages adamw "$fastest" 2 4 2 1 stopped --workers 2
workers=0

# Ranks that are lost are saved for, and any other layout goes on.
for layout in "2 3 1" "3 3 2" "2 4 4"; do
  # shellcheck disable=SC2086
  set -- $layout # stages ranks; stages of the next run, of two threads
  extra=
  # shellcheck disable=SC2086
  lose one --stages "$1" --procs "$2" --threads 2 $adamw
  extra="--stages $3"
  (train --resume "$folder/run" --max-steps 10 --threads 4 >"$folder/json" 2>>"$folder/err")
  found="$lost $(values steps weights_sha256)"
  [ "$found" = "lost 10 $adamw_digest" ]
  result $? "$1 stages on $2 ranks lose one, $3 stages go on" \
    "expected lost 10 $adamw_digest, found $found $(cat "$folder/err")"
done
echo "1..$count"
