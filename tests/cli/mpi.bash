# Common to the tests that mpirun starts.

setup_file() {
  . "$SRCDIR/tests/mpi_lib.sh"
  mpi_missing
  export MPIRUN MPI_KIND MISSING MPI_EXTRA=
}

need_mpi() {
  [ -z "$MISSING" ] || skip "$MISSING"
  . "$SRCDIR/tests/mpi_lib.sh"
  mpi_missing
  export HEDDLE_MODULE_PATH=$BUILDDIR/.libs
}
