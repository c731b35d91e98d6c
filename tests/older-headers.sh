#!/bin/sh
# TAP: programs that were compiled with other headers run with this library: with older ones, whose structs are shorter,
# and with newer ones, whose structs are longer, unless they set a field that this library does not know.
. "$SRCDIR/tests/tap.sh"
[ -f "$BUILDDIR/.libs/libheddle.so" ] || { echo "1..0 # SKIP this build has no shared library"; exit 0; }
nm -D "$BUILDDIR/.libs/libheddle.so" | grep -q __asan && { echo "1..0 # SKIP a library with sanitizers"; exit 0; }
cd "$folder" || exit 1

cat >program.c <<'END'
#include <heddle.h>
#include <stdio.h>
#include <string.h>

#ifndef LATER
#define LATER
#endif

static void same(const hd_custom_call *c) { memcpy(c->y, c->x[0], (size_t)c->y_elems * sizeof *c->y); }
static void back(const hd_custom_call *c) { memcpy(c->dx[0], c->dy, (size_t)c->x_elems * sizeof *c->dy); }

int main(void) {
  static const hd_custom_op op = {
      .struct_bytes = sizeof op, .name = "same", .inputs = 1, .forward = same, .backward = back};
  const hd_group_settings alone = {.struct_bytes = sizeof alone, .rank = 0, .world_size = 1 LATER};
  char *argv[] = {"false", NULL};
  const hd_launch_settings settings = {.struct_bytes = sizeof settings, .ranks = 1, .argv = argv};
  struct {
    hd_launch_result result;
    char guard[8]; /* behind the struct as this program knows it */
  } out = {{.struct_bytes = sizeof out.result}, "guarded"};
  hd_ctx *ctx;
  hd_group *group = NULL;
  hd_status status = hd_ctx_create(&ctx);
  if (status == HD_OK)
    status = hd_custom_op_add(ctx, &op);
  if (status == HD_OK)
    status = hd_group_init(&group, ctx, &alone);
  if (status != HD_OK)
    printf("%d %s\n", status, hd_ctx_message(ctx));
  hd_group_destroy(group);
  if (status == HD_OK && hd_launch(&out.result, ctx, &settings) != HD_E_PEER)
    puts("expected that the rank fails");
  if (status == HD_OK)
    printf("%zu %d %d %s\n", sizeof out.result, out.result.exit_code, out.result.failed_rank, out.guard);
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
END

# runs NAME OPTION...: compiles the program with the headers of a folder, and runs it.
runs() {
  headers=$1
  shift
  cc -std=c11 -Wall -Werror "$@" -I "$headers" program.c -o program -L "$BUILDDIR/.libs" -lheddle \
    -Wl,-rpath,"$BUILDDIR/.libs" >out 2>&1 && ./program >out 2>&1
}
# edited NAME SED_SCRIPT: a copy of the headers.
edited() {
  cp -R "$SRCDIR/include" "$1"
  chmod -R u+w "$1"
  for header in group launch custom_op; do
    sed "$2" "$SRCDIR/include/heddle/$header.h" >"$1/heddle/$header.h"
    ! cmp -s "$SRCDIR/include/heddle/$header.h" "$1/heddle/$header.h" || result fail "$1/heddle/$header.h differs"
  done
}

runs "$SRCDIR/include"
result $? "with these headers" "$(cat out)"
grep -q ' 1 0 guarded$' out
result $? "a result arrives" "$(cat out)"

edited older '/hd_arithmetic_choice arithmetic;/d; /char run\[/d; /^  void \*user;.*passed on/d; /^  void \*user;$/d'
runs older
result $? "with older headers, whose structs are shorter" "$(cat out)"
grep -q ' 1 0 guarded$' out
result $? "the library writes as far as the program's struct goes" "$(cat out)"

edited newer 's/^} \(hd_group_settings\|hd_launch_settings\|hd_launch_result\|hd_custom_op\);/  long later;\n&/'
runs newer
result $? "with newer headers, whose structs are longer" "$(cat out)"
runs newer '-DLATER=,.later=1'
refused=$?
[ "$refused" -eq 1 ] && grep -q '^-7 expected the .* bytes of hd_group_settings .* newer field set (byte' out
result $? "a newer field that is set is refused" "$(cat out)"
sed -i 's/{.struct_bytes = sizeof alone, /{/' program.c
runs "$SRCDIR/include"
grep -q '^-1 expected struct_bytes = sizeof(hd_group_settings), [0-9]* here, found 0; set it first$' out
result $? "a struct without its size is refused" "$(cat out)"
echo "1..$count"
