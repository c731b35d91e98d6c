#!/bin/sh
# TAP: one digest whatever the layout: ranks x threads x accumulation x instruction set x resume, over two epochs with a
# ragged last batch that leaves shards empty.
#
# Experiments, each with a committed digest: AdamW with clipping (three phases), SGD with momentum under a schedule
# (two), a network with batch norm under clipping (statistics are reduced between phases), one whose batch norm uses the
# statistics of a shard, one whose first layer leaves the zeros of samples out, one whose updates are written past the
# caches, one of nearly every operation, dropout among them, one with frozen parameters and groups, one whose groups end
# in the middle, one whose layers share weights, three of groups with several optimizers, two of them with averages of
# weights, and each other optimizer. The reference's kernels are one more instruction set. Threads of unequal speed,
# some without a shard, and loader workers are added. By default every
# pair of settings occurs in some run; with `make check-bits` every combination, and each
# resumed run was killed. The JSON of a run shows that the requested threads and instruction set ran.
. "$SRCDIR/tests/bits/trained.sh"

isa_number=0
for isa in reference scalar avx2 avx512 neon; do
  has_isa $isa || continue
  thread_number=0
  for threads in 1 2 3 5 8; do
    for accumulate in 1 2 4; do
      sum=$((isa_number + thread_number))
      for how in whole killed; do
        if [ "$depth" -lt 3 ]; then
          [ "$accumulate" = $((1 << sum % 3)) ] || continue
          [ "$how" = whole ] || how=stopped
          case $((sum % 2))$how in 0stopped | 1whole) continue ;; esac
        fi
        case $depth$isa$threads in 1reference[1358] | 1scalar[1358]) continue ;; esac # slow: make check-all has them
        check_run adamw "$isa" "$threads" "$accumulate" "$how"
        case $depth$isa in 1reference | 1scalar) continue ;; esac
        case $depth$threads in 3? | ?3) check_run sgd "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[18]) check_run shard "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[138]) check_run mixed "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[25]) check_run norm "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[25]) check_run shared "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[235]) check_run wide "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$isa$threads in 3* | ?$fastest[25]) check_run large "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?1) check_run several "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[23]) check_run ended "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[28]) check_run muon "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[35]) check_run ema "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[15]) check_run lion "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[28]) check_run rmsprop "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[35]) check_run nadam "$isa" "$threads" "$accumulate" "$how" ;; esac
        case $depth$threads in 3? | ?[18]) check_run rules "$isa" "$threads" "$accumulate" "$how" ;; esac
      done
    done
    thread_number=$((thread_number + 1))
  done
  isa_number=$((isa_number + 1))
done
# half_of NUMBER: of the runs that this and the next are two halves of, `make check` takes one after the other.
turn=0
half_of() {
  turn=$((turn + 1))
  [ "$depth" -ge 2 ] || [ $((turn % 2)) = $(($1 % 2)) ]
}
for speeds in 1,0,3 0,0,1 1000,1,1,550; do
  HEDDLE_THREAD_SPEEDS=$speeds
  export HEDDLE_THREAD_SPEEDS
  for threads in 3 8; do
    half_of "$threads" && check_run adamw "$fastest" "$threads" 2 whole
    half_of "$threads" && check_run norm "$fastest" "$threads" 1 whole
    half_of "$threads" && check_run mixed "$fastest" "$threads" 1 stopped
    half_of "$threads" && check_run wide "$fastest" "$threads" 1 whole
  done
done
unset HEDDLE_THREAD_SPEEDS

# Loader workers: as many as requested ran, through two epochs, a short last batch, and a ring smaller and larger than
# an epoch.
for layout in "1 1 1" "1 2 2" "2 1 3" "2 8 2" "5 3 256" "3 2 1"; do
  # shellcheck disable=SC2086
  set -- $layout
  turn=$((turn + 1)) of_turn=0
  for how in whole killed stopped; do
    of_turn=$((of_turn + 1))
    [ "$depth" -ge 2 ] || [ $((turn % 3)) = $((of_turn % 3)) ] || continue
    workers=$2
    extra="--workers $2 --prefetch-factor $3 --pin-memory"
    check_run adamw "$fastest" "$1" 2 $how
  done
done
workers=0 extra=

# Ranks: as many as requested took part. A run that lost one, or all at once, goes on with another number of them.

if [ -n "${NO_RANKS-}" ]; then
  result skip "ranks: $NO_RANKS"
  echo "1..$count"
  exit 0
fi
for layout in "1 2 1" "2 2 2" "1 3 1" "2 3 4" "1 4 2" "2 4 1"; do
  # shellcheck disable=SC2086
  set -- $layout
  ranks=$2
  extra="--procs $2" turn=0
  for each in "adamw whole" "mixed whole" "norm whole" "shard whole" "wide whole" "shared stopped" "muon stopped" \
    "ema whole" \
    "sgd whole" "lion whole" "rmsprop stopped" "nadam stopped"; do
    half_of $(($3 > 1)) && check_run "${each% *}" "$fastest" "$1" "$3" "${each#* }"
  done
  extra="--procs $2 --workers 2" workers=2
  half_of $(($3 > 1)) && check_run adamw "$fastest" "$1" "$3" whole
  workers=0
done
for layout in "one 2 1 3" "one 4 2 1" "all 3 1 2" "all 2 2 4"; do
  # shellcheck disable=SC2086
  set -- $layout
  extra=
  # shellcheck disable=SC2086
  lose "$1" --procs "$2" --threads "$3" $adamw
  extra="--procs $4"
  (train --resume "$folder/run" --max-steps 10 >"$folder/json" 2>>"$folder/err")
  found="$lost $(values ranks steps weights_sha256)" wanted="lost $4 10 $adamw_digest"
  [ "$found" = "$wanted" ]
  result $? "$2 ranks lose $1, $4 go on" "expected $wanted, found $found $(cat "$folder/err")"
done
echo "1..$count"
