#!/bin/sh
# TAP: tools/check-abi lets a library grow, and finds what breaks programs that were compiled before.
. "$SRCDIR/tests/tap.sh"
command -v abidiff >/dev/null || { echo "1..0 # SKIP abidiff is not installed"; exit 0; }
cd "$folder" || exit 1

# library NAME SED_SCRIPT: a library whose header is edited.
library() {
  mkdir -p "$1/include/heddle"
  : >"$1/include/heddle/experimental.h"
  printf 'typedef enum hd_tool_choice {\n  HD_TOOL_%s,\n  HD_TOOL_%s,\n} hd_tool_choice;\n' ${4:-BRUSH PEN} \
    >"$1/include/heddle/options.h"
  sed "$2" >"$1/include/heddle.h" <<'END'
#include <stddef.h>
typedef enum hd_color { HD_RED, HD_BLUE } hd_color;
typedef struct hd_event {
  int step;
} hd_event;
typedef struct hd_size {
  int width, height;
} hd_size;
typedef struct hd_wish {
  size_t struct_bytes;
  long color;
} hd_wish;
HD_API int hd_paint(const hd_wish *wish, const hd_event *event, hd_size size, hd_color color);
HD_API int hd_wipe(void);
END
  sed -n 's/^HD_API \(.*\);/#define HD_API\n\1 { return 0; }/p' "$1/include/heddle.h" |
    { echo '#define HD_API'; echo '#include "heddle.h"'; grep -v '^#define'; } >"$1/heddle.c"
  cc -shared -fPIC -g -I "$1/include" -o "$1/libheddle.so" "$1/heddle.c" -Wl,-soname,"${3:-libheddle.so.0}"
}
compare() { "$SRCDIR/tools/check-abi" "$1" "$1/libheddle.so" old old/libheddle.so >"$1.out" 2>&1; }
keeps() { library "$1" "$2" && compare "$1"; result $? "$1" "$(cat "$1.out")"; }
breaks() {
  library "$1" "$2" && ! compare "$1" && grep -q 'expected the interface of old' "$1.out"
  result $? "$1" "$(cat "$1.out")"
}

library old ''
keeps 'no change' ''
keeps 'a struct with its size grows' 's/^  long color;/&\n  long depth;/'
keeps 'a struct of the library grows' 's/^  int step;/&\n  int epoch;/'
keeps 'another function' '$a HD_API int hd_more(void);'
keeps 'another enumerator' 's/HD_BLUE/&, HD_GREEN/'
breaks 'a field in the middle' 's/^  long color;/  long depth;\n&/'
breaks 'a field of another type' 's/^  long color;/  double color;/'
breaks 'a struct passed by value grows' 's/height;/height, depth;/'
breaks 'an enumerator in front of others' 's/HD_RED/HD_GREEN, &/'
breaks 'another argument' 's/hd_wipe(void)/hd_wipe(int all)/'
breaks 'a function is gone' '/hd_wipe/d'
library 'choices' '' libheddle.so.0 'PEN BRUSH'
! compare choices && grep -q '^hd_tool_choice: number 1 was  HD_TOOL_PEN$' choices.out
result $? "choices in another order" "$(cat choices.out)"
library 'another soname' '/hd_wipe/d' libheddle.so.1
compare 'another soname' && grep -q 'skipped: libheddle.so.1 is another interface' 'another soname.out'
result $? "a library with another soname is not compared" "$(cat 'another soname.out')"
mkdir -p no-tag && git -C no-tag init -q 2>/dev/null
"$SRCDIR/tools/check-abi" no-tag none >out 2>&1 && grep -q 'skipped: expected a tag to compare with, found none' out
result $? "without a tag there is nothing to compare" "$(cat out)"
echo "1..$count"
