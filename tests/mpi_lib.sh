# How tests start ranks by mpirun, on hosts that are this machine under several names. Sourced; BUILDDIR is set.
MPIRUN= MPI_KIND=

# mpi_missing: why ranks cannot be started over MPI, or nothing; then MPIRUN and MPI_KIND are set. Call it directly.
mpi_missing() {
  MISSING=
  module=$BUILDDIR/.libs/heddle-mpi.so
  [ -f "$module" ] || { MISSING="heddle was configured without MPI"; return 0; }
  case $(ldd "$module") in
  *libmpich*) MPI_KIND=mpich words='mpirun.mpich mpiexec.hydra mpirun' says=HYDRA ;;
  *) MPI_KIND=openmpi words='mpirun.openmpi mpirun' says='Open MPI' ;;
  esac
  for word in $words; do
    command -v "$word" >/dev/null && "$word" --version 2>&1 | grep -q "$says" && MPIRUN=$word && break
  done
  [ -n "$MPIRUN" ] || { MISSING="there is no mpirun of the MPI that heddle was built with"; return 0; }
  if [ $MPI_KIND = openmpi ]; then
    MPIRUN="$MPIRUN --allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent /bin/false"
  fi
}

# over HOSTS COMMAND...: a rank of the command for each word of HOSTS, which names its host; "-": that of the machine
# name.
over() {
  hosts=$1
  shift
  # shellcheck disable=SC2086
  HOSTS=$hosts $MPIRUN $MPI_EXTRA -n "$(echo "$hosts" | wc -w)" sh -c '
    set -- $HOSTS -- "$@"
    rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
    shift "$rank"
    [ "$1" = - ] || export HEDDLE_HOST_ID="$1"
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@"' sh "$@"
}
