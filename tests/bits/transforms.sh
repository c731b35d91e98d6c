#!/bin/sh
# TAP: samples in a random or a balanced order that go through random transforms are the same ones whatever the layout:
# threads x accumulation x instruction set x loader workers x resume within an epoch, after the end of a run or after
# SIGKILL, over two epochs with a ragged last batch.
samples=150
. "$SRCDIR/tests/bits/trained.sh"

# The constants. A change of one changes every user's results: the commit must give the reason.
soft_digest=dc203379ccbaf0fc6ab5d144b85bce844366b9a70cb75792955a183e3b72940d
labels_digest=00bb3472b9b0881a513f6b777db97d3d8e5288085c301f41fd5721e6f732d47f
balanced_digest=0c38ec01fd11e647c20f16664b673204af6408931ddbb0634e1ee2b81af206d5
mixed_samples_digest=1e83f35888b8e98bebfc899c272edab191a2c9d500195c38e73b22564648f812
tiny="--model $SRCDIR/tests/bits/tiny.yaml --optimizer adamw --lr 0.01"
labels="$tiny --transforms $SRCDIR/tests/bits/transforms.yaml --val-split 0.1"
balanced="$tiny --sampler balanced --transforms $SRCDIR/tests/bits/transforms.yaml"
soft="$tiny --label-smoothing 0.1 --transforms $SRCDIR/tests/bits/probabilities.yaml"
mixed_samples="--model $SRCDIR/tests/bits/soft.yaml --optimizer adamw --lr 0.01"
mixed_samples="$mixed_samples --config $SRCDIR/tests/bits/mixed_samples.yaml"

turn=0
for isa in reference scalar avx2 avx512 neon; do
  has_isa $isa || continue
  threads_of_isa="1 2 3 4"
  case $depth$isa in
  1reference | 1scalar) threads_of_isa=2 ;; # slow
  1avx2) threads_of_isa="1 3" ;;
  1avx512) threads_of_isa="2 4" ;;
  esac
  for threads in $threads_of_isa; do
    for accumulate in 1 2 4; do
      case $depth$isa$accumulate in 1reference[14] | 1scalar[14]) continue ;; esac
      turn=$((turn + 1))
      case $depth in
      3) hows="whole stopped killed" ;;
      *) case $(((turn + threads) % 3)) in 0) hows=whole ;; 1) hows=stopped ;; *) hows=killed ;; esac ;;
      esac
      for how in $hows; do
        check_run labels "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" = 4 ] || [ "$hows" != "$how" ] || check_run soft "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" != 2 ] || [ "$hows" != "$how" ] || check_run balanced "$isa" "$threads" "$accumulate" "$how"
        [ "$accumulate" = 2 ] || [ "$hows" != "$how" ] || check_run mixed_samples "$isa" "$threads" "$accumulate" "$how"
      done
    done
  done
done

# What a checkpoint evaluates to is what its run did, and a resumed run keeps to its transforms.
evaluated=$("$HEDDLE" eval "$folder/run" --data "$data" --json | tail -n 1)
run=$(tail -n 1 "$folder/json")
for key in loss accuracy; do
  echo "$evaluated" >"$folder/evaluated"
  [ "$(value $key "$folder/evaluated")" = "$(value test_$key "$folder/json")" ]
  result $? "heddle eval finds the run's $key" "run $run, eval $evaluated"
done
(train --resume "$folder/run" --transforms '[to_float]' --max-steps 12 >"$folder/json" 2>"$folder/err")
grep -q "expected transforms .* as in that run, found \[to_float\]" "$folder/err"
result $? "other transforms are refused" "$(cat "$folder/err")"
for workers in 1 2 8; do
  extra="--workers $workers"
  for threads in 1 2 5; do
    for how in whole stopped killed; do
      turn=$((turn + 1))
      [ "$depth" -ge 2 ] || [ $((turn % 3)) = $((threads % 3)) ] || continue # each pair of two of the three
      check_run labels "$fastest" $threads 1 $how
      [ $how = killed ] || check_run mixed_samples "$fastest" $threads 4 $how
      [ $how = whole ] || check_run balanced "$fastest" $threads 2 $how
    done
  done
done
echo "1..$count"
