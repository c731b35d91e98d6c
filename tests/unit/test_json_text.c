/* Numbers in JSON have the shortest text that reads back equal, as doubles, as floats, and in a locale with commas. */
#include "comma_locale.h"

#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_number.h"
#include "base/json_text.h"
#include "base/philox.h"

static const char *number(double value) {
  static char text[HD_JSON_NUMBER_BYTES];
  hd__json_number(text, value);
  return text;
}

static const char *of_float(float value) {
  static char text[HD_JSON_NUMBER_BYTES];
  hd__json_float(text, value);
  return text;
}

static void test_numbers(const char *where) {
  static const struct {
    double value;
    const char *text;
  } is[] = {{0.2759, "0.2759"},
            {0.1 + 0.2, "0.30000000000000004"},
            {0, "0"},
            {-0.0, "-0"},
            {1, "1"},
            {150000, "150000"},
            {-1234.5, "-1234.5"},
            {9007199254740991, "9007199254740991"},
            {1e15, "1000000000000000"},
            {1e16, "1e16"},
            {0.0001, "0.0001"},
            {0.00012345, "0.00012345"},
            {0.00001, "1e-5"},
            {-2.5e-7, "-2.5e-7"},
            {5e-324, "5e-324"},
            {1.7976931348623157e308, "1.7976931348623157e308"},
            {NAN, "null"},
            {-INFINITY, "null"}};
  for (size_t i = 0; i < sizeof is / sizeof *is; i++)
    ok(!strcmp(number(is[i].value), is[i].text), "%s: expected %s, found %s", where, is[i].text, number(is[i].value));
  is_str(of_float(0.1f), "0.1", "a float has the text of a float");
  is_str(of_float(16777216.0f), "16777216", "a whole one");
  is_str(of_float(1.17549435e-38f), "1.1754944e-38", "the smallest normal one");
}

/* Random bits: every double and float reads back. */
static void test_read_back(void) {
  uint32_t bits[4];
  int wrong = 0, floats = 0;
  for (uint32_t i = 0; i < 20000; i++) {
    hd__philox(bits, 7, (const uint32_t[4]){i});
    double value;
    float single;
    memcpy(&value, bits, sizeof value);
    memcpy(&single, bits + 2, sizeof single);
    wrong += isfinite(value) && strtod(number(value), NULL) != value;
    floats += isfinite(single) && strtof(of_float(single), NULL) != single;
  }
  ok(wrong == 0 && floats == 0, "20,000 random numbers read back equal (%d doubles and %d floats do not)", wrong,
     floats);
}

static void test_text(void) {
  json_t *value =
      json_pack("{s:f, s:[f,f,i], s:s, s:f, s:o}", "accuracy", 0.2759, "list", 1.0, 1e22, 7, "0.27589999999999998",
                "a \"0.27589999999999998\\\" 1e5", "loss", 2.3025850929940459, "lr", hd__json_of_float(0.1f));
  char *text = hd__json_dump(value, JSON_COMPACT | JSON_PRESERVE_ORDER);
  is_str(text,
         "{\"accuracy\":0.2759,\"list\":[1.0,1e22,7],\"0.27589999999999998\":"
         "\"a \\\"0.27589999999999998\\\\\\\" 1e5\",\"loss\":2.302585092994046,\"lr\":0.1}",
         "numbers are shortened, strings and whole numbers stay, and a real number stays one");
  json_t *back = text ? json_loads(text, 0, NULL) : NULL;
  json_object_set_new(value, "lr", json_real(0.1));
  ok(json_equal(back, value), "the text reads back equal");
  free(text);
  json_decref(back);
  json_decref(value);
}

int main(void) {
  test_numbers("the C locale");
  test_read_back();
  test_text();
  if (set_comma_locale()) {
    test_numbers("a locale with commas");
    test_text();
  } else
    skip(23, "no locale with commas can be had");
  return done_testing();
}
