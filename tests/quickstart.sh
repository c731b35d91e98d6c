#!/bin/sh
# TAP: tools/install-deps with and without the right to install, and tools/quickstart when more is installed than when
# it configured the build. Stubs replace the package manager, sudo and configure.
. "$SRCDIR/tests/tap.sh"
cd "$folder" || exit 1
mkdir bin tree tree/tools
for tool in sh awk grep sed env cat mkdir dirname nproc find rm cp cmp mv tail make chmod; do
  ln -s "$(command -v $tool)" "bin/$tool" || exit 1
done
stand_in() { # NAME, and what it does on standard input
  { echo '#!/bin/sh'; cat; } >"bin/$1"
  chmod +x "bin/$1"
}
export STAND="$folder"
stand_in dpkg-query <<'END'
for package; do :; done
grep -qx -- "$package" "$STAND/gone" || printf 'install ok installed'
END
stand_in id <<'END'
cat "$STAND/user"
END
# It installs the named packages, unless a name is unknown.
stand_in apt-get <<'END'
echo "$*" >>"$STAND/asked"
[ ! -e "$STAND/offline" ] || exit 100
for package; do ! grep -qx -- "$package" "$STAND/unknown" || exit 100; done
for package; do grep -vx -- "$package" "$STAND/gone" >"$STAND/rest"; mv "$STAND/rest" "$STAND/gone"; done
END
gone() { printf '%s\n' "$@" >gone; : >unknown; : >asked; rm -f offline bin/sudo; }
code=0
deps() {
  PATH="$folder/bin" "$SRCDIR/tools/install-deps" "$@" >out 2>&1
  code=$?
}
shown() { echo "exit code $code"; cat out asked; }
is() { # NAME CODE PATTERN: the exit code, and what was said
  if [ "$code" -eq "$2" ] && grep -q -- "$3" out; then result pass "$1"; else result fail "$1" "$(shown)"; fi
}

echo 1000 >user
gone scdoc valgrind
deps --yes
is "without root or sudo optional packages are named and left out" 0 '^install-deps: left out.* scdoc valgrind ('
gone scdoc libyaml-dev
deps --yes
is "what is needed is missed" 1 'expected root or sudo, found neither.* libyaml-dev scdoc'
gone libyaml-dev
deps --check
is "--check reports it" 1 '^missing: libyaml-dev$'
gone scdoc
deps --check
is "--check succeeds where only optional packages are missing" 0 '^missing: scdoc$'
gone openmpi-bin valgrind
deps --check
is "the tests need runs over several hosts too" 0 '^missing: openmpi-bin$'
deps --check --build --mpi
is "--mpi asks for them without the rest" 0 '^missing: openmpi-bin$'
deps --check --build
if [ "$code" = 0 ] && [ ! -s out ]; then
  result pass "--build leaves them out"
else
  result fail "--build leaves them out" "$(shown)"
fi
gone libzip-dev libturbojpeg0-dev libprotobuf-c-dev protobuf-c-compiler scdoc curl ca-certificates
deps --check --build
if [ "$(sed 's/^missing: //' out | sort | tr '\n' ' ')" = "$(sort gone | tr '\n' ' ')" ]; then
  why=pass
else
  why=fail
fi
result $why "--build has every format, the manual, and what fetches data" "$(shown)"
gone scdoc
stand_in sudo <<'END'
exit 1
END
deps --yes
is "so where sudo is refused" 0 'left out.* scdoc '
echo 0 >user
gone scdoc valgrind bats
: >offline
deps --yes
is "so where there is no network" 0 'left out.* bats scdoc valgrind ('
gone scdoc libyaml-dev
: >offline
deps --yes
is "but not where something needed is missing" 1 'ask an administrator to install: libyaml-dev scdoc'
gone scdoc valgrind libyaml-dev
echo scdoc >unknown
deps --yes
is "an unknown package alone is left out" 0 'left out.*: scdoc ('
[ "$(cat gone)" = scdoc ]
result $? "and the others are installed" "$(shown)"

# A tree of nothing but its configure, which makes an object with the flags that it found.
cp "$SRCDIR/tools/quickstart" "$SRCDIR/tools/install-deps" "$SRCDIR/tools/tap-total" tree/tools/
cat >tree/configure <<'END'
#!/bin/sh
echo "configured $*" >>"$STAND/log"
flags=$(grep -c jpeg "$STAND/gone")
printf 'all: object\nobject:\n\techo made >>"%s/log"; echo %s >object\nclean:\n\trm -f object\n' \
  "$STAND" "$flags" >Makefile
printf 'check:\n\tmkdir -p tests; echo ok >tests/one.log\n' >>Makefile
printf '#!/bin/sh\n[ "$1" != --recheck ] || exec ../configure given\n' >config.status
chmod +x config.status
END
cat >tree/tools/list-sources <<'END'
#!/bin/sh
cat "$STAND/sources"
END
printf '#!/bin/sh\necho bootstrapped >>"$STAND/log"\ntools/list-sources >sources.mk\n' >tree/bootstrap
chmod +x tree/configure tree/bootstrap tree/tools/list-sources
echo one.c | tee sources >tree/sources.mk
quick() {
  : >log
  PATH="$folder/bin" tree/tools/quickstart --check >out 2>&1
  code=$?
}
steps() { # NAME STEPS...: what a run did, in order
  name=$1
  shift
  if [ "$code" -eq 0 ] && [ "$(sed 's/ $//' log | tr '\n' ',')" = "$*" ]; then result pass "$name"; else
    result fail "$name" "$(echo "expected $*"; cat log out tree/build/quickstart.log)"
  fi
}
echo 1000 >user
gone libturbojpeg0-dev bats
quick
steps "quickstart --check without rights configures and builds" configured,made,
is "it reports what is left out" 0 '^install-deps: left out.* bats'
quick
steps "again: nothing is left to do" ""
gone libturbojpeg0-dev
quick
steps "a package that changes no flag: configured again, nothing is made again" configured given,
gone nothing
quick
steps "one that does: all is made again" configured given,made,
[ "$(cat tree/build/object)" = 0 ]
result $? "with the new flags" "$(cat tree/build/object)"
echo two.c >>sources
quick
steps "a new source: its list is made again" bootstrapped,
echo "1..$count"
