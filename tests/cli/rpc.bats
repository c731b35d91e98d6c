# Remote procedure calls between processes: on one host, and over MPI on hosts that are this machine under several
# names. tests/unit/test_rpc has what one host needs no processes for.

load cli
load mpi

calls=$BUILDDIR/tests/cli/rpc_calls

@test "three ranks call each other, with one sum on any hosts" {
  "$HEDDLE" launch -n 3 -- "$calls" >wanted
  grep -q '^3 ranks ' wanted
  need_mpi
  over "b a b" "$calls" >out
  [ "$(tr -d '\r' <out)" = "$(cat wanted)" ]
}

@test "large calls in both directions at once do not wait in a circle" {
  "$HEDDLE" launch -n 3 -- "$calls" large
  need_mpi
  over "a b" "$calls" large
}

@test "a killed rank: calls under way and later ones fail by its name" {
  "$HEDDLE" launch -n 3 -- "$calls" killed 2>err && false
  [ "$(grep -c '^rank [02]: rank 1 (pid [0-9]* on .*) was killed by signal 9 (Killed)$' err)" -ge 3 ] ||
    { cat err; return 1; }
}

@test "a rank that ends without closing its calls fails those of the others" {
  "$HEDDLE" launch -n 3 -- "$calls" gives_up 2>err && false
  grep -q '^rank [02]: rank 1 (pid [0-9]* on .*) gave up: it called hd_rpc_destroy before hd_rpc_close$' err
}

@test "ranks that are lost on another host" {
  need_mpi
  over "a b" "$calls" gives_up 2>err && false
  grep -q '^rank 0: rank 1 (pid [0-9]* on b) gave up: it called hd_rpc_destroy before hd_rpc_close' err ||
    { cat err; return 1; }
  [ "$MPI_KIND" = openmpi ] || skip "this mpirun gives ranks no time to say so"
  MPI_EXTRA='--mca odls_base_sigkill_timeout 2' over "a b b" "$calls" killed 2>err && false
  grep -Eq '^rank 2: rank 1 \(pid [0-9]* on b\) (was killed by signal 9|ended in the middle of the run)' err ||
    { cat err; return 1; }
}

@test "a call that takes too long is given up, and its rank goes on" {
  "$HEDDLE" launch -n 2 -- "$calls" late 2>err
  grep -q "^rank 0: 'sleep' of rank 1: expected it to end within 0.05 s, but it has not ended" err
  need_mpi
  over "a b" "$calls" late 2>err
  grep -q "^rank 0: 'sleep' of rank 1: expected it to end within 0.05 s, but it has not ended" err
}
