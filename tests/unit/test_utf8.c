/* Untrusted text: what is valid passes, what is not becomes '?', nothing is cut in the middle of a character. */
#include "tap.h"

#include "base/utf8.h"

static const char *cleaned(const char *text) {
  static char out[64];
  hd__utf8_clean(out, sizeof out, text, strlen(text));
  return out;
}

int main(void) {
  is_str(cleaned("cnn on ../data"), "cnn on ../data", "ASCII passes");
  is_str(cleaned("mod\303\250le \342\202\254 \360\237\247\265"), "mod\303\250le \342\202\254 \360\237\247\265",
         "so do two, three and four bytes");
  is_str(cleaned("a\nb\033[2Jc\177"), "a?b?[2Jc?", "control characters do not");
  is_str(cleaned("\302\233x"), "??x", "nor those above 127");
  is_str(cleaned("\342\200\256x \342\201\246x \342\200\217x"), "???x ???x ???x", "nor what changes directions");
  is_str(cleaned("\330\234 \342\200\250"), "?? ???", "or ends lines");
  is_str(cleaned("\342\200\235\342\201\204"), "\342\200\235\342\201\204", "their neighbours pass");
  is_str(cleaned("\377\376"), "??", "bytes that never occur");
  is_str(cleaned("\300\257 \340\200\257 \301\201"), "?? ??? ??", "characters written too long");
  is_str(cleaned("\355\240\200"), "???", "half a surrogate pair");
  is_str(cleaned("\364\220\200\200"), "????", "beyond the last character");
  is_str(cleaned("x\303"), "x?", "one that is cut off");
  ok(hd__utf8_shown("\342\202\254x", 4) == 3 && hd__utf8_shown("x", 1) == 1, "a character is so many bytes");
  ok(!hd__utf8_shown("\302\233", 2) && !hd__utf8_shown("\342\202", 2), "none may be shown of a control, or of a part");
  char place[] = "a\302\233b\033\342\202\254";
  hd__utf8_clean(place, sizeof place, place, sizeof place);
  is_str(place, "a??b?\342\202\254", "a text is cleaned where it stands");
  char out[6];
  hd__utf8_clean(out, sizeof out, "abcd\342\202\254", 7);
  is_str(out, "abcd", "what does not fit whole is left out");
  hd__utf8_clean(out, sizeof out, "ab\0cd", 5);
  is_str(out, "ab", "a zero ends it");
  char names[32];
  hd__utf8_escape(names, sizeof names, "caf\351, a\nb\0 \342\202\254", 14);
  is_str(names, "caf\\xE9, a\\x0Ab\\x00 \342\202\254", "escaped, texts stay different");
  hd__utf8_escape(names, sizeof names, "caf\\xE9 \\xe9 \\x", 15);
  is_str(names, "caf\\x5CxE9 \\xe9 \\x", "a text that reads as an escape, too");
  hd__utf8_show(names, sizeof names, "caf\351 \\xE9", 9);
  is_str(names, "caf\\xE9 \\xE9", "which stays where a text is shown");
  hd__utf8_escape(out, sizeof out, "abc\351", 4);
  is_str(out, "abc", "an escape that does not fit whole is left out");
  const char endless[3] = {'a', 'b', 'c'};
  hd__utf8_clean(out, sizeof out, endless, sizeof endless);
  is_str(out, "abc", "and so does its length");
  ok(hd__utf8_is("", 0) && hd__utf8_is("a\0\342\202\254\n", 6), "a text may be UTF-8, with its zeros and controls");
  ok(!hd__utf8_is("caf\351", 4) && !hd__utf8_is("\351caf", 4) && !hd__utf8_is("\342\202\254", 2),
     "or not, at its beginning or at its end");
  return done_testing();
}
