# What the tests of the examples share beside tap.sh: in their folder a data set of $samples (training, test) in `data`.
. "$SRCDIR/tests/tap.sh"
cd "$folder" || exit 1
mkdir data
"$BUILDDIR/tests/bits/make_idx" data $samples || { echo "Bail out! no data"; exit 1; }

# check NAME COMMAND...: the command must succeed.
check() {
  name=$1
  shift
  "$@" >check.out 2>&1
  result $? "$name" "$(cat check.out)"
}
