# What the compiler can do: sanitizers, instruction sets.

# HD_TRY_FLAGS(FLAGS, VARIABLE): whether the compiler takes FLAGS, "yes" or "no" in VARIABLE.
AC_DEFUN([HD_TRY_FLAGS], [
  AC_MSG_CHECKING([whether the compiler takes $1])
  hd_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [$2=yes], [$2=no])
  CFLAGS=$hd_saved_cflags
  AC_MSG_RESULT([$$2])])

# HD_COMPILE_AT_ONCE: after LT_INIT; objects of shared libraries are compiled without the way through libtool. (Static
# libraries hold the same objects: libtool takes what they are made of from archives, of which it makes one each.)
AC_DEFUN([HD_COMPILE_AT_ONCE], [
  AS_IF([test "$enable_shared" = yes && test "$lt_prog_compiler_pic" = " -fPIC -DPIC"],
    [LIBTOOL='/bin/sh $(top_srcdir)/tools/libtool-compile $(SHELL) $(top_builddir)/libtool'])])

# HD_SANITIZERS: --enable-sanitizers.
AC_DEFUN([HD_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers@<:@=thread@:>@],
      [build with the address and undefined-behaviour sanitizers, or with the one for threads])],
    [], [enable_sanitizers=no])
  AS_CASE([$enable_sanitizers],
    [yes], [SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"],
    [thread], [SANITIZE="-fsanitize=thread -fno-omit-frame-pointer"],
    [SANITIZE=])
  AC_SUBST([SANITIZE])
  # Unrolled kernels touch memory in so many places that a check inside each would compile for hours; a call does not.
  # Of undefined behaviour there are no calls: the reference kernels, which state the same, are checked for that.
  SANITIZE_CALLS=
  AS_IF([test "$enable_sanitizers" = yes],
    [HD_TRY_FLAGS([-fsanitize=address -mllvm -asan-instrumentation-with-call-threshold=0], [hd_calls])
     AS_IF([test "$hd_calls" = yes], [SANITIZE_CALLS="-mllvm -asan-instrumentation-with-call-threshold=0"],
       [SANITIZE_CALLS="--param asan-instrumentation-with-call-threshold=0"])
     SANITIZE_CALLS="$SANITIZE_CALLS -fno-sanitize=undefined"])
  AC_SUBST([SANITIZE_CALLS])])

# HD_KERNEL_FLAGS: what makes GCC take a third less time for kernels, large functions of unrolled loops. It need not
# follow each variable for a debugger (line numbers stay), nor copy the loops of the scalar ones for each path to them.
AC_DEFUN([HD_KERNEL_FLAGS], [
  HD_TRY_FLAGS([-Werror -fno-var-tracking], [hd_no_tracking])
  HD_TRY_FLAGS([-Werror -fno-thread-jumps], [hd_no_threads])
  AS_IF([test "$hd_no_tracking" = yes], [KERNEL_DEBUG=-fno-var-tracking], [KERNEL_DEBUG=])
  AS_IF([test "$hd_no_threads" = yes], [SCALAR_CFLAGS=-fno-thread-jumps], [SCALAR_CFLAGS=])
  AC_SUBST([KERNEL_DEBUG])
  AC_SUBST([SCALAR_CFLAGS])])

# HD_INSTRUCTION_SETS: each needs a compiler that knows its flags; which one runs is decided at run time.
AC_DEFUN([HD_INSTRUCTION_SETS], [
  AVX2_CFLAGS="-mavx2 -mfma"
  AVX512_CFLAGS="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512"
  AMX_CFLAGS="-mavx512bf16 -mamx-tile -mamx-bf16"
  hd_avx2=no hd_avx512=no hd_amx=no hd_neon=no
  AS_CASE([$host_cpu],
    [x86_64], [HD_TRY_FLAGS([$AVX2_CFLAGS], [hd_avx2])
               HD_TRY_FLAGS([$AVX512_CFLAGS], [hd_avx512])
               HD_TRY_FLAGS([$AVX512_CFLAGS $AMX_CFLAGS], [hd_amx])],
    [aarch64], [hd_neon=yes])
  AC_SUBST([AVX2_CFLAGS])
  AC_SUBST([AVX512_CFLAGS])
  AC_SUBST([AMX_CFLAGS])
  AM_CONDITIONAL([HAVE_AVX2], [test "$hd_avx2" = yes])
  AM_CONDITIONAL([HAVE_AVX512], [test "$hd_avx512" = yes])
  AM_CONDITIONAL([HAVE_AMX], [test "$hd_amx" = yes])
  AM_CONDITIONAL([HAVE_NEON], [test "$hd_neon" = yes])])
