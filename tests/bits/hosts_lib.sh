# Sourced by tests of digests over ranks that mpirun starts; skips the file where that is not possible. train runs
# heddle on the given hosts; check compares what the last run says of itself and its digest; check_run does both.
. "$SRCDIR/tests/tap.sh"
. "$SRCDIR/tests/bits/experiments.sh"
. "$SRCDIR/tests/mpi_lib.sh"
data=$folder/data
MPI_EXTRA=
mpi_missing
[ -z "$MISSING" ] || { echo "1..0 # SKIP $MISSING"; exit 0; }

train() { # HOSTS OPTIONS...
  hosts=$1
  shift
  over "$hosts" "$HEDDLE" train --data "$data" --batch 32 --epochs 2 --seed 7 --json --threads "$threads" \
    --accumulate "$accumulate" "$@" >"$folder/json" 2>"$folder/err"
}

check() { # NAME HOSTS DIGEST
  found=$(values ranks hosts threads accumulate steps weights_sha256)
  hosts=$(echo "$2" | tr ' ' '\n' | sort -u | wc -l)
  [ "$hosts" -gt 1 ] || hosts=
  wanted="$(echo "$2" | wc -w) $hosts $threads $accumulate 10 $3"
  if [ "$found" = "$wanted" ]; then result pass "$1"
  else result fail "$1" "expected $wanted, found $found $(cat "$folder/err")"; fi
}

check_run() { # EXPERIMENT HOSTS THREADS ACCUMULATE OPTIONS...
  experiment=$1 where=$2 threads=$3 accumulate=$4
  eval "digest=\$${experiment}_digest options=\$$experiment"
  shift 4
  rm -rf "$folder/run"
  # shellcheck disable=SC2086
  train "$where" $options --out "$folder/run" "$@"
  name="$experiment, ranks on $where, $threads threads, accumulate $accumulate"
  name="$name${HEDDLE_HOST_SUMS:+, sums by $HEDDLE_HOST_SUMS}${*:+, $*}${MPI_EXTRA:+, $MPI_EXTRA}"
  check "$name" "$where" "$digest"
}

mkdir "$data"
"$BUILDDIR/tests/bits/make_idx" "$data" 138 50 || { echo "Bail out! no data"; exit 1; }
