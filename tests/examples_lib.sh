# What the tests of the examples share: a folder of their own, in it a data set of $samples (training, test) in `data`;
# results as TAP.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-examples.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir data
"$BUILDDIR/tests/bits/make_idx" data $samples || { echo "Bail out! no data"; exit 1; }
count=0

# result CODE NAME [FILE]: one line of TAP; what FILE holds after a failure.
result() {
  count=$((count + 1))
  if [ "$1" = 0 ]; then echo "ok $count - $2"; return; fi
  echo "not ok $count - $2"
  [ $# -lt 3 ] || sed 's/^/# /' "$3"
}

# check NAME COMMAND...: the command must succeed.
check() {
  name=$1
  shift
  "$@" >check.out 2>&1
  result $? "$name" check.out
}
