#!/bin/sh
# TAP: the digests of bits.sh over ranks that mpirun starts, on one host, and on two and three that are this machine
# under several names, with as many samples as leave shards and hosts empty. A run proves by its JSON that the requested
# ranks and hosts took part.
. "$SRCDIR/tests/bits/hosts_lib.sh"
check_run adamw "- -" 1 2
check_run norm "- - - -" 1 1
# Each layout in both ways of sums; what the model would choose is one of them.
number=0
for layout in "a b,1" "a a b,2" "a b c,1" "a b a b,1" "b a a,1" "a b c,2"; do
  where=${layout%,*} threads=${layout#*,}
  for experiment in adamw mixed norm; do
    HEDDLE_HOST_SUMS=$(echo all-gather owners | cut -d ' ' -f $(((number + ${#experiment}) % 2 + 1)))
    export HEDDLE_HOST_SUMS
    check_run $experiment "$where" "$threads" $((1 << number % 3))
  done
  case $number in
  0 | 2) check_run sgd "$where" "$threads" 1; check_run shared "$where" "$threads" 2 ;;
  1 | 4)
    check_run shard "$where" "$threads" 1
    check_run ended "$where" "$threads" 2
    check_run rules "$where" "$threads" 4
    ;;
  3) check_run wide "$where" "$threads" 2; check_run muon "$where" "$threads" 1 ;;
  5) check_run muon "$where" "$threads" 2; check_run ema "$where" "$threads" 1 ;;
  esac
  number=$((number + 1))
done
unset HEDDLE_HOST_SUMS
check_run adamw "a b" 1 1 --workers 2
check_run rules "a b a" 1 1 --eval-every 2
# Stages, all of them on each host.
check_run adamw "a a b b" 1 1 --stages 2
check_run norm "a b a b" 1 1 --stages 2 --schedule-stages gpipe
check_run mixed "a b b" 3 1 --stages 3
HEDDLE_HOST_SUMS=owners
export HEDDLE_HOST_SUMS
check_run adamw "b a" 2 2 --stages 2
check_run muon "a b" 2 1 --stages 2
check_run ended "a b" 2 1 --stages 2
unset HEDDLE_HOST_SUMS
HEDDLE_ISA=reference
export HEDDLE_ISA
check_run mixed "a b" 1 1
unset HEDDLE_ISA

# Stopped on two hosts, goes on on three.
threads=1 accumulate=2
rm -rf "$folder/run"
# shellcheck disable=SC2086
train "a b" $adamw --max-steps 7 --out "$folder/run"
train "a b c" --resume "$folder/run" --max-steps 10
# shellcheck disable=SC2154
check "stopped on two hosts, goes on on three" "a b c" "$adamw_digest"

# Through TCP, where the transport can be chosen.
if [ "$MPI_KIND" = openmpi ]; then
  MPI_EXTRA='--mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo' # all hosts are this machine
  check_run adamw "a b" 2 1
  check_run norm "a b c" 1 1
  check_run adamw "- -" 1 1
else
  result skip "forcing TCP is for Open MPI"
fi
echo "1..$count"
