# The modules for NVIDIA GPUs: kernels, and NCCL.

# HD_CUDA: the module of kernels is made where nvcc is; everything around it is built and tested anywhere.
AC_DEFUN([HD_CUDA], [
  HD_NVCC
  HD_CUDA_ARCHS
  HD_TRY_NVCC
  hd_cuda_dir=
  CUDA_INCLUDES=
  AS_IF([test -n "$NVCC"], [hd_cuda_dir=$(dirname "$(dirname "$NVCC")") CUDA_INCLUDES="-isystem $hd_cuda_dir/include"])
  AC_SUBST([CUDA_LOWEST])
  AC_SUBST([CUDA_INCLUDES])
  AC_SUBST([CUDA_ARCHS])
  AC_SUBST([CUDA_GENCODE])
  AC_SUBST([CUDA_TOOLKIT])
  AS_IF([test -n "$NVCC"], [hd_have_gpu=yes], [hd_have_gpu=no])
  HD_OFFER([$hd_have_gpu], [NVIDIA GPUs], [CUDA toolkit])
  AM_CONDITIONAL([HAVE_NVCC], [test -n "$NVCC"])])

# HD_NVCC: --with-cuda; sets NVCC, empty where there is none.
AC_DEFUN([HD_NVCC], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
      [make the module for NVIDIA GPUs with DIR/bin/nvcc (default: if nvcc is found in CUDA_HOME, PATH or
       /usr/local/cuda)])],
    [], [with_cuda=auto])
  AC_ARG_VAR([NVCC], [NVIDIA's compiler])
  AS_CASE([$with_cuda],
    [no], [NVCC=],
    [yes|auto], [AC_PATH_PROG([NVCC], [nvcc], [], [${CUDA_HOME:+$CUDA_HOME/bin:}$PATH:/usr/local/cuda/bin])],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])])

# HD_CUDA_ARCHS: --with-cuda-arch; sets CUDA_ARCHS, the lowest of them, and nvcc's options for them.
AC_DEFUN([HD_CUDA_ARCHS], [
  AC_ARG_WITH([cuda-arch],
    [AS_HELP_STRING([--with-cuda-arch=LIST],
      [compute capabilities to make machine code for, such as "80 90" (default: those of 75 80 90 100 120 that nvcc
       knows); others above the lowest are served by the driver])],
    [], [with_cuda_arch=])
  # One of each generation of GPUs: the code of 80 runs on 86 and 89, too. An nvcc that lists nothing is of CUDA 11.
  AS_IF([test -z "$with_cuda_arch" && test -n "$NVCC"], [
    hd_known=$($NVCC --list-gpu-code 2>/dev/null | tr '\n' ' ')
    for hd_arch in 75 80 90 100 120; do
      AS_CASE([" $hd_known"], [*" sm_$hd_arch "*], [with_cuda_arch="$with_cuda_arch $hd_arch"])
    done])
  CUDA_ARCHS=$(echo ${with_cuda_arch:-80} | tr ',' ' ')
  CUDA_LOWEST=
  for hd_arch in $CUDA_ARCHS; do
    AS_CASE([$hd_arch], [[[1-9][0-9]|[1-9][0-9][0-9]]], [],
      [AC_MSG_ERROR([--with-cuda-arch expects compute capabilities without a dot, such as "80 90", found $hd_arch])])
    AS_IF([test -z "$CUDA_LOWEST" || test "$hd_arch" -lt "$CUDA_LOWEST"], [CUDA_LOWEST=$hd_arch])
  done
  # The kernels need nothing that only some architectures have: one translation for the lowest, assembled for each,
  # takes a third less time than one for each; drivers assemble it for the rest.
  CUDA_GENCODE="-gencode arch=compute_$CUDA_LOWEST,code=compute_$CUDA_LOWEST"
  for hd_arch in $CUDA_ARCHS; do
    CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$CUDA_LOWEST,code=sm_$hd_arch"
  done])

# HD_TRY_NVCC: compiles an empty kernel with these options; sets CUDA_TOOLKIT to nvcc's version.
AC_DEFUN([HD_TRY_NVCC], [
  CUDA_TOOLKIT=0
  AS_IF([test -n "$NVCC"], [
    AC_MSG_CHECKING([whether $NVCC makes kernels for $CUDA_ARCHS])
    echo '__global__ void empty(void) {}' >conftest.cu
    AS_IF([$NVCC -fatbin $CUDA_GENCODE -o conftest.fatbin conftest.cu >conftest.log 2>&1], [
      hd_release=$($NVCC --version | sed -n 's/.*release \([[0-9]]*\)\.\([[0-9]]*\).*/\1 \2/p')
      CUDA_TOOLKIT=$(echo "$hd_release" | awk '{ print [$]1 * 1000 + [$]2 * 10 }')
      AC_MSG_RESULT([yes])
      # Drivers for CUDA 12 that are older than its 12.4 cannot read it.
      AS_IF([test "$CUDA_TOOLKIT" -ge 13000 &&
             $NVCC -fatbin -compress-mode=size -o conftest.fatbin conftest.cu >/dev/null 2>&1],
        [CUDA_GENCODE="-compress-mode=size $CUDA_GENCODE"])
    ], [
      AC_MSG_RESULT([no])
      AS_IF([test "$with_cuda" != auto],
        [AC_MSG_ERROR(m4_normalize([expected an nvcc that makes kernels for $CUDA_ARCHS, found:
           $(head -n 1 conftest.log); give other --with-cuda-arch, or --without-cuda]))])
      NVCC=
    ])
    rm -f conftest.cu conftest.fatbin conftest.log
  ], [AS_IF([test "$with_cuda" != auto && test "$with_cuda" != no],
        [AC_MSG_ERROR(m4_normalize([expected nvcc in $with_cuda, found none; name the CUDA toolkit's folder, or give
           --without-cuda]))])])])

# HD_NCCL: the module that lets groups use GPUs needs NCCL's header, by default the one beside the nvcc of HD_CUDA, to
# build, and libnccl.so.2 when it runs.
AC_DEFUN([HD_NCCL], [
  AC_ARG_WITH([nccl],
    [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@],
      [make the module for backend nccl with DIR/include/nccl.h (default: if it is there beside nvcc)])],
    [], [with_nccl=auto])
  AS_CASE([$with_nccl],
    [no], [hd_nccl=no],
    [hd_nccl=yes hd_nccl_dir=$hd_cuda_dir
     AS_CASE([$with_nccl], [yes|auto], [], [hd_nccl_dir=$with_nccl])
     AS_IF([test "$hd_nccl_dir" = "$with_nccl" && test ! -f "$with_nccl/include/nccl.h"], [hd_nccl=no])
     NCCL_CFLAGS="${hd_nccl_dir:+-isystem $hd_nccl_dir/include}${CUDA_INCLUDES:+ $CUDA_INCLUDES}"
     hd_saved_cflags=$CFLAGS
     CFLAGS="$CFLAGS $NCCL_CFLAGS"
     AC_MSG_CHECKING([whether programs with NCCL can be compiled])
     AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]],
         [[ncclConfig_t config = NCCL_CONFIG_INITIALIZER; return config.blocking;]])], [], [hd_nccl=no])
     AC_MSG_RESULT([$hd_nccl])
     CFLAGS=$hd_saved_cflags])
  AS_IF([test "$with_nccl" != auto && test "$with_nccl" != no && test "$hd_nccl" = no],
    [AC_MSG_ERROR(m4_normalize([expected nccl.h, and CUDA's headers, in ${hd_nccl_dir:-the compiler's folders}, found
       none that compiles; name its folder, or give --without-nccl]))])
  AC_SUBST([NCCL_CFLAGS])
  AM_CONDITIONAL([HAVE_NCCL], [test "$hd_nccl" = yes])])
