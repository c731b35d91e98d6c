# HD_MPI: the module for several hosts, by pkg-config (Open MPI, MPICH), else by the flags that an MPI compiler shows.
AC_DEFUN([HD_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi@<:@=MPICC@:>@],
    [build the module for runs over several hosts (default: if MPI is there); MPICC: with the flags that this compiler
     shows])],
    [], [with_mpi=auto])
  hd_have_mpi=no
  AS_CASE([$with_mpi], [no], [],
    [auto|yes],
      [PKG_CHECK_MODULES([MPI], [ompi-c], [hd_have_mpi=yes],
        [PKG_CHECK_MODULES([MPI], [mpich], [hd_have_mpi=yes], [AC_CHECK_PROGS([MPICC], [mpicc])])])],
    [MPICC=$with_mpi])
  AS_IF([test -n "$MPICC" && hd_show=`$MPICC -show 2>/dev/null`],
    [AS_FOR([], [hd_word], [$hd_show],
       [AS_CASE([$hd_word], [-I*|-D*|-pthread], [MPI_CFLAGS="$MPI_CFLAGS $hd_word"],
          [-*], [MPI_LIBS="$MPI_LIBS $hd_word"])])
     hd_have_mpi=yes])
  AS_IF([test "$hd_have_mpi" = yes],
    [hd_saved_cflags=$CFLAGS hd_saved_libs=$LIBS
     CFLAGS="$CFLAGS $MPI_CFLAGS" LIBS="$MPI_LIBS $LIBS"
     AC_MSG_CHECKING([whether programs with MPI can be built])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Init(0, 0);]])], [], [hd_have_mpi=no])
     AC_MSG_RESULT([$hd_have_mpi])
     CFLAGS=$hd_saved_cflags LIBS=$hd_saved_libs])
  AS_IF([test "$with_mpi" != auto && test "$with_mpi" != no && test "$hd_have_mpi" = no],
    [AC_MSG_ERROR(m4_normalize([expected an MPI (Debian: libopenmpi-dev or libmpich-dev), found none;
       run: tools/install-deps --mpi --yes]))])
  HD_OFFER([$hd_have_mpi], [runs over several hosts], [libopenmpi-dev])
  AM_CONDITIONAL([HAVE_MPI], [test "$hd_have_mpi" = yes])])
