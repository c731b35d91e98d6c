#!/bin/sh
# TAP: the digests of bits.sh where each stage of the network runs on a host of its own: this machine under several names.
# The JSON of a run shows that the stages ran on the hosts that they belong to.
. "$SRCDIR/tests/bits/hosts_lib.sh"
for layout in "a b,1,2" "a a b,1,2" "a b c,1,3" "a b,2,3" "b a,3,2"; do
  where=${layout%%,*} threads=${layout#*,} stages=${layout##*,}
  for experiment in adamw norm; do
    check_run $experiment "$where" "${threads%,*}" 1 --stages "$stages" --place-stages hosts
  done
done
echo "1..$count"
