# HD_NEED(WHAT, PACKAGE): ends configure, and names what is missing.
AC_DEFUN([HD_NEED], [AC_MSG_ERROR([expected $1 ($2), found none; run: tools/install-deps --yes])])

# HD_OFFER(YES-OR-NO, WHAT, PACKAGE): notes what this build has, or what it leaves out and the Debian package to install
# for it. HD_SUMMARY prints both; `heddle --version` does too.
AC_DEFUN([HD_OFFER], [
  AS_IF([test "$1" = yes], [BUILT_WITH="${BUILT_WITH:+$BUILT_WITH, }$2"],
    [LEFT_OUT="${LEFT_OUT:+$LEFT_OUT, }$2 ($3)"])])

AC_DEFUN([HD_SUMMARY], [
  AC_SUBST([BUILT_WITH])
  AC_SUBST([LEFT_OUT])
  AC_CONFIG_COMMANDS([summary], [
    echo
    echo "heddle $hd_version is configured. Next: make"
    echo "  built with: $hd_built_with"
    test -z "$hd_left_out" || echo "  left out:   $hd_left_out"
    test -z "$hd_left_out" || echo "              install what is in brackets and run configure again"],
    [hd_version='$PACKAGE_VERSION' hd_built_with='$BUILT_WITH' hd_left_out='$LEFT_OUT'])])

# HD_FORMAT(OPTION, VARIABLE, MODULE, WHAT, PACKAGE, PROGRAM): formats of files that need a library of their own, and to
# be built a program, are built in where these are there, unless --without-OPTION says no; --with-OPTION demands it.
AC_DEFUN([HD_FORMAT], [
  AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1], [read $4 (default: if the library is there)])], [], [with_$1=auto])
  AS_IF([test "$with_$1" != no], [PKG_CHECK_MODULES([$2], [$3], [hd_have_$1=yes], [hd_have_$1=no])], [hd_have_$1=no])
  m4_ifval([$6], [AC_PATH_PROG([$2_PROGRAM], [$6])
    AS_IF([test -z "$$2_PROGRAM"], [hd_have_$1=no])])
  AS_IF([test "$with_$1" = yes && test "$hd_have_$1" = no], [HD_NEED([$3], [Debian: $5])])
  AS_IF([test "$hd_have_$1" = yes], [HAVE_FORMATS="$HAVE_FORMATS -DHD_HAVE_$2" FORMAT_MODULES="$FORMAT_MODULES $3"])
  HD_OFFER([$hd_have_$1], [$4], [$5])
  AM_CONDITIONAL([HAVE_$2], [test "$hd_have_$1" = yes])])

# HD_NOTE_VERSIONS(MODULES): their names and versions in HD_LIBRARIES, a text for the records of runs.
AC_DEFUN([HD_NOTE_VERSIONS], [
  hd_libraries=
  AS_FOR([], [hd_module], [$1],
    [hd_libraries="${hd_libraries:+$hd_libraries, }$hd_module `$PKG_CONFIG --modversion $hd_module`"])
  AC_DEFINE_UNQUOTED([HD_LIBRARIES], ["$hd_libraries"], [names and versions of the libraries this is built with])])
