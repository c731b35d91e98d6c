/* Settings as text: numbers in every spelling, YAML in its small subset. What is refused is refused with the file and
 * the line. */
#include "scratch.h"

#include <float.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/yaml_bind.h"
#include "comma_locale.h"

static hd_ctx *ctx;

static void test_whole_numbers(void) {
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0},
              {"-0", 0},
              {"+5", 5},
              {"-17", -17},
              {"007", 7},
              {"9223372036854775807", INT64_MAX},
              {"-9223372036854775808", INT64_MIN},
              {"0000000000000000000000000000001", 1}};
  static const char *const bad[] = {"",
                                    "-",
                                    "+",
                                    " 1",
                                    "1 ",
                                    "1.0",
                                    "1.",
                                    "1e3",
                                    "0x10",
                                    "1,000",
                                    "1_000",
                                    "--1",
                                    "+-1",
                                    "1-",
                                    "٣",
                                    "abc",
                                    "nan",
                                    "\n",
                                    "1\n",
                                    "0b1",
                                    "1 2",
                                    "²",
                                    "9223372036854775808",
                                    "-9223372036854775809",
                                    "99999999999999999999999999999999999999"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    int64_t value = 42;
    ok(hd__parse_int64(&value, good[i].text) && value == good[i].value, "'%s' is a whole number", good[i].text);
  }
  int wrong = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int64_t value = 42;
    int taken = hd__parse_int64(&value, bad[i]) || value != 42;
    wrong += taken;
    if (taken)
      diag("'%s' was taken as %lld", bad[i], (long long)value);
  }
  is_int(wrong, 0, "%zu texts that are no whole number of 64 bits are refused, and nothing is written",
         sizeof bad / sizeof *bad);
}

static void test_real_numbers(const char *where) {
  static const struct {
    const char *text;
    double value;
  } good[] = {{"0.1", 0.1},
              {"1e-3", 0.001},
              {"1E+3", 1000},
              {".5", 0.5},
              {"5.", 5},
              {"+1", 1},
              {"-2.5e-2", -0.025},
              {"1.7976931348623157e308", DBL_MAX},
              {"-1.7976931348623157e308", -DBL_MAX},
              {"4.9406564584124654e-324", 4.9406564584124654e-324},
              {"1e-400", 0},
              {"0.30000000000000004", 0.1 + 0.2},
              {"9007199254740993", 9007199254740992.0},
              {"0.9999999999999999999999999", 1}};
  static const char *const bad[] = {"",
                                    "-",
                                    "+",
                                    ".",
                                    "e5",
                                    "1e",
                                    "1e+",
                                    "--1",
                                    "+-1",
                                    " 1",
                                    "1 ",
                                    "1,5",
                                    "1.5.2",
                                    "nan",
                                    "NaN",
                                    "inf",
                                    "-inf",
                                    "infinity",
                                    "0x10",
                                    "0x1p3",
                                    "1f",
                                    "1_0",
                                    "1e999",
                                    "-1e309",
                                    "1.7976931348623159e308",
                                    "1e99999999999",
                                    "1d3",
                                    "1\n",
                                    "½",
                                    "1e5.5"};
  int wrong = 0;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double value = 42;
    int taken = hd__parse_double(&value, good[i].text) && value == good[i].value;
    wrong += !taken;
    if (!taken)
      diag("'%s' was taken as %.17g", good[i].text, value);
  }
  is_int(wrong, 0, "%s: %zu numbers are read to the last bit", where, sizeof good / sizeof *good);
  wrong = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double value = 42;
    int taken = hd__parse_double(&value, bad[i]) || value != 42;
    wrong += taken;
    if (taken)
      diag("'%s' was taken as %.17g", bad[i], value);
  }
  is_int(wrong, 0, "%s: %zu texts that are no finite decimal number are refused", where, sizeof bad / sizeof *bad);
  double zero = 42;
  ok(hd__parse_double(&zero, "-0") && zero == 0 && signbit(zero), "%s: minus zero stays minus zero", where);
}

static void test_long_numbers(void) {
  static char text[20001];
  double value = 42;
  int64_t whole = 42;
  memset(text, '9', sizeof text - 1);
  ok(!hd__parse_double(&value, text) && !hd__parse_int64(&whole, text) && value == 42 && whole == 42,
     "20,000 nines are refused");
  text[0] = '0';
  text[1] = '.';
  ok(hd__parse_double(&value, text) && value == 1, "0.999... of 20,000 digits is 1");
}

/* Where a comma is the decimal point, it must not become one here. */
static void test_comma_locale(void) {
  const char *name = set_comma_locale();
  if (name)
    test_real_numbers(name);
  else
    skip(3, "no language with a decimal comma is installed");
  setlocale(LC_ALL, "C");
}

static hd_yaml *parse(const char *text) {
  hd_yaml *yaml;
  hd_status status = hd__yaml_parse(&yaml, ctx, text, strlen(text), "a.yaml");
  if (status != HD_OK)
    bail_out("expected YAML to be read, found: %s", hd_ctx_message(ctx));
  return yaml;
}

static const hd_yaml_node *get(const hd_yaml *yaml, const char *key) {
  const hd_yaml_node *node = hd__yaml_get(hd__yaml_root(yaml), key);
  if (!node)
    bail_out("expected the key '%s', found none", key);
  return node;
}

static void test_tree(void) {
  hd_yaml *yaml =
      parse("# settings\n---\nname: net\nlist: [1, two, [3]]\n\nmap:\n  a: 1\n  b: {c: d}\nquoted: \"a\\tb: 'c'\"\n"
            "block: |\n  one\n  two\nempty:\n");
  const hd_yaml_node *root = hd__yaml_root(yaml), *list = get(yaml, "list"), *map = get(yaml, "map");
  ok(root->kind == HD_YAML_MAPPING && root->count == 6 && root->line == 3,
     "the root is a mapping of six keys in line 3");
  is_str(get(yaml, "name")->text, "net", "a scalar has its text");
  is_int(get(yaml, "name")->line, 3, "and its line");
  ok(list->kind == HD_YAML_SEQUENCE && list->count == 3 && list->line == 4, "a list of three");
  ok(!strcmp(list->item[1].text, "two") && !list->item[1].key, "whose entries have texts and no keys");
  ok(list->item[2].kind == HD_YAML_SEQUENCE && list->item[2].count == 1, "and may be lists");
  ok(map->kind == HD_YAML_MAPPING && map->count == 2 && map->line == 7, "a mapping begins at its first key");
  const hd_yaml_node *c = hd__yaml_get(hd__yaml_get(map, "b"), "c");
  ok(c && c->line == 8 && !strcmp(c->text, "d") && !strcmp(c->key, "c"), "a mapping in a mapping");
  is_str(get(yaml, "quoted")->text, "a\tb: 'c'", "quotes and escapes");
  is_str(get(yaml, "block")->text, "one\ntwo\n", "a block of text");
  is_str(get(yaml, "empty")->text, "", "nothing is an empty text");
  is_str(root->source, "a.yaml", "every node has its file");
  ok(!hd__yaml_get(root, "nam") && !hd__yaml_get(root, "names") && !hd__yaml_get(list, "two"),
     "what is not there is not found");
  hd__yaml_destroy(yaml);
  static const char *const nothing[] = {"", "\n\n", "# a comment", "---\n", "\xef\xbb\xbf# with a byte order mark\n"};
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
    yaml = parse(nothing[i]);
    root = hd__yaml_root(yaml);
    ok(root->count == 0 && (root->kind == HD_YAML_MAPPING || !*root->text), "a text without content has no keys (%zu)",
       i);
    hd__yaml_destroy(yaml);
  }
  hd__yaml_destroy(NULL);
}

static void test_getters(void) {
  hd_yaml *yaml = parse(
      "int: 12\nneg: -3\nhuge: 99999999999999999999\nreal: 1.5\nhex: 0x10\nyes: true\nno: false\nmaybe: yes\n"
      "upper: True\nempty:\nlist: [1]\nmap: {a: 1}\nnan: .nan\ncomma: 1,5\nsep: 1_000\nquoted: \"7\"\nblank: \" 7\"\n");
  int64_t i = 42;
  bool b = true;
  const char *text = NULL;
  ok(hd__yaml_int(&i, ctx, get(yaml, "int"), 12, 12) == HD_OK && i == 12, "a whole number at both limits");
  ok(hd__yaml_int(&i, ctx, get(yaml, "neg"), INT64_MIN, INT64_MAX) == HD_OK && i == -3, "a negative one");
  ok(hd__yaml_int(&i, ctx, get(yaml, "quoted"), 0, 9) == HD_OK && i == 7, "a quoted one");
  i = 42;
#define NO_INT(key, line, says)                                                                                        \
  refuses_at(hd__yaml_int(&i, ctx, get(yaml, key), 0, 100), HD_E_FORMAT, ctx, "a.yaml:" line ": ", says,               \
             "%s is no int", key)
  NO_INT("neg", "2", "from 0 to 100 as 'neg', found '-3'");
  NO_INT("huge", "3", "found '99999999999999999999'");
  NO_INT("real", "4", "found '1.5'");
  NO_INT("hex", "5", "found '0x10'");
  NO_INT("yes", "6", "found 'true'");
  NO_INT("empty", "10", "found nothing");
  NO_INT("list", "11", "found a list");
  NO_INT("map", "12", "found a mapping");
  NO_INT("nan", "13", "found '.nan'");
  NO_INT("comma", "14", "found '1,5'");
  NO_INT("sep", "15", "found '1_000'");
  NO_INT("blank", "17", "found ' 7'");
  refuses_at(hd__yaml_int(&i, ctx, get(yaml, "int"), 0, 11), HD_E_FORMAT, ctx, "a.yaml:1: ", "from 0 to 11",
             "12 is above 11");
  refuses_at(hd__yaml_int(&i, ctx, get(yaml, "int"), 13, 20), HD_E_FORMAT, ctx, "a.yaml:1: ", "from 13 to 20",
             "12 is below 13");
  is_int(i, 42, "and nothing was written");
  double d = 42;
  ok(hd__yaml_number(&d, ctx, get(yaml, "real"), 1.5, 2) == HD_OK && d == 1.5, "a number at its limit");
  ok(hd__yaml_number(&d, ctx, get(yaml, "neg"), -3, 0) == HD_OK && d == -3, "a whole number is a number");
  refuses_at(hd__yaml_number(&d, ctx, get(yaml, "real"), 0, 1), HD_E_FORMAT, ctx,
             "a.yaml:4: ", "from 0 to 1 as 'real', found '1.5'", "1.5 is above 1");
  refuses_at(hd__yaml_number(&d, ctx, get(yaml, "nan"), 0, 1), HD_E_FORMAT, ctx, "a.yaml:13: ", "found '.nan'",
             "NaN is no number");
  refuses_at(hd__yaml_number(&d, ctx, get(yaml, "comma"), 0, 9), HD_E_FORMAT, ctx, "a.yaml:14: ", "found '1,5'",
             "a comma is no decimal point");
  ok(d == -3, "and nothing was written");
  ok(hd__yaml_bool(&b, ctx, get(yaml, "no")) == HD_OK && !b, "false");
  ok(hd__yaml_bool(&b, ctx, get(yaml, "yes")) == HD_OK && b, "true");
#define NO_BOOL(key, line, says)                                                                                       \
  refuses_at(hd__yaml_bool(&b, ctx, get(yaml, key)), HD_E_FORMAT, ctx, "a.yaml:" line ": ", says, "%s is no bool", key)
  NO_BOOL("maybe", "8", "found 'yes'");
  NO_BOOL("upper", "9", "found 'True'");
  NO_BOOL("int", "1", "found '12'");
  NO_BOOL("empty", "10", "found nothing");
  ok(hd__yaml_text(&text, ctx, get(yaml, "real")) == HD_OK && !strcmp(text, "1.5"), "a text");
  refuses_at(hd__yaml_text(&text, ctx, get(yaml, "list")), HD_E_FORMAT, ctx, "a.yaml:11: ", "as list",
             "a list is no text");
  refuses_at(hd__yaml_text(&text, ctx, get(yaml, "empty")), HD_E_FORMAT, ctx, "a.yaml:10: ", "found nothing",
             "nothing is no text");
  refuses_at(hd__yaml_expect(ctx, get(yaml, "int"), HD_YAML_MAPPING, "a layer"), HD_E_FORMAT, ctx,
             "a.yaml:1: ", "expected a mapping as a layer, found a single value", "a number is no mapping");
  is_int(hd__yaml_expect(ctx, get(yaml, "list"), HD_YAML_SEQUENCE, "a list"), HD_OK, "a list is a list");
  refuses_at(hd__yaml_int(&i, ctx, &get(yaml, "list")->item[0], 5, 6), HD_E_FORMAT, ctx, "a.yaml:11: ", "as 'an entry'",
             "entries of lists have no name");
  hd__yaml_destroy(yaml);
}

static void test_unknown_keys(void) {
  static const char *const known[] = {"batch", "epochs", "learning_rate", NULL};
  hd_yaml *yaml = parse("batch: 1\n\nepoch: 2\n");
  refuses(hd__yaml_only_keys(ctx, hd__yaml_root(yaml), known), HD_E_FORMAT, ctx, "a.yaml:3: ", "did you mean 'epochs'",
          "an unknown key is refused with the nearest one");
  hd__yaml_destroy(yaml);
  yaml = parse("batch: 1\nlearning_rate: 2\n");
  is_int(hd__yaml_only_keys(ctx, hd__yaml_root(yaml), known), HD_OK, "known keys are taken");
  hd__yaml_destroy(yaml);
  static char text[100001];
  memset(text, 'x', sizeof text - 1);
  memcpy(text + sizeof text - 3, ": ", 2);
  yaml = parse("Batch: 1\n");
  refuses(hd__yaml_only_keys(ctx, hd__yaml_root(yaml), known), HD_E_FORMAT, ctx, "a.yaml:1: ", "'batch'",
          "a capital letter counts");
  hd__yaml_destroy(yaml);
  yaml = parse("\"a\\nb\\e[2J\\x7f\": 1\n");
  refuses(hd__yaml_only_keys(ctx, hd__yaml_root(yaml), known), HD_E_FORMAT, ctx, "a.yaml:1: ", "'a?b?[2J?'",
          "a key with a line break and a terminal's commands gives one harmless line");
  hd__yaml_destroy(yaml);
}

static void refused(const char *text, size_t length, int line, const char *says, const char *name) {
  hd_yaml *yaml;
  char place[32];
  held before = held_now();
  hd_status status = hd__yaml_parse(&yaml, ctx, text, length, "a.yaml");
  snprintf(place, sizeof place, "a.yaml:%d: ", line);
  refuses(status, HD_E_FORMAT, ctx, place, says, "%s is refused", name);
  ok(!yaml, "%s: there is no tree", name);
  holds_same(before, "%s: nothing is left behind", name);
}

static void test_bad_texts(void) {
  static const struct {
    const char *text;
    int line;
    const char *says, *name;
  } bad[] = {
      {"a: 1\nb: 2\na: 3\n", 3, "found 'a' again (first in line 1)", "a key twice"},
      {"x:\n  a: 1\n  b: {c: 1, c: 2}\n", 3, "found 'c' again", "a key twice in braces"},
      {"a: 1\n\"a\": 2\n", 2, "found 'a' again", "a key twice, once quoted"},
      {"a: &x 1\n", 1, "anchor (&x)", "an anchor on a value"},
      {"a:\n  - &x [1]\n", 2, "anchor (&x)", "an anchor on a list"},
      {"a: 1\nb: &x {c: 1}\n", 2, "anchor (&x)", "an anchor on a mapping"},
      {"&x a: 1\n", 1, "anchor (&x)", "an anchor on a key"},
      {"&x\na: 1\n", 1, "anchor (&x)", "an anchor on the root"},
      {"a: 1\nb: *x\n", 2, "alias", "an alias as value"},
      {"a: 1\n*x : 2\n", 2, "alias", "an alias as key"},
      {"- 1\n- *x\n", 2, "alias", "an alias in a list"},
      {"*x\n", 1, "alias", "an alias as root"},
      {"a: 1\n<<: *x\n", 2, "alias", "a merged mapping"},
      {"a: !!int 3\n", 1, "tag (tag:yaml.org,2002:int)", "a tag on a value"},
      {"a: 1\nb: !file [x]\n", 2, "tag (!file)", "a tag on a list"},
      {"!!python/object:os.system {a: 1}\n", 1, "tag (tag:yaml.org,2002:python", "a tag on the root"},
      {"a: 1\n? [b]\n: 2\n", 2, "found a list or mapping", "a list as key"},
      {"a: 1\n{b: c}: 2\n", 2, "found a list or mapping", "a mapping as key"},
      {"a: 1\n---\nb: 2\n", 2, "found a second", "a second document"},
      {"a: 1\n...\n---\nb: 2\n", 3, "found a second", "a second document behind an end"},
      {"a: 1\n  b: 2\n", 2, "expected YAML", "a wrong indentation"},
      {"a: [1, 2\nb: 3\n", 2, "expected YAML", "a bracket that stays open"},
      {"a: 'x\n", 2, "expected YAML", "a quote that stays open"},
      {"a:\n\t- 1\n", 2, "expected YAML", "a tab as indentation"},
      {"a: 1\nb\n", 3, "expected YAML", "a key without value"},
      {"a: @x\n", 1, "expected YAML", "a reserved sign"},
      {"a: 1\nb: \"\\q\"\n", 2, "expected YAML", "an unknown escape"},
      {"a: 1\nb: \"x\\0y\"\n", 2, "NUL", "a NUL escaped in a value"},
      {"a: 1\n\"x\\0y\": 2\n", 2, "NUL", "a NUL escaped in a key"},
      {"a: 1\n\nb: \x01\n", 3, "expected YAML", "a control character"},
      {"a: 1\nb: \xff\xfe\n", 2, "expected YAML", "what is not UTF-8"},
      {"a: 1\nb: \xc0\x80\n", 2, "expected YAML", "a NUL in overlong UTF-8"},
      {"a: 1\nb: \xed\xa0\x80\n", 2, "expected YAML", "half a surrogate pair"},
      {"\x89PNG\r\n\x1a\n", 1, "expected YAML", "a picture"},
      {"%YAML 9.9\n---\na: 1\n", 1, "expected YAML", "a version to come"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(bad[i].text, strlen(bad[i].text), bad[i].line, bad[i].says, bad[i].name);
  refused("a: 1\nb: x\0y\n", 12, 2, "expected YAML", "a NUL byte");
}

static void test_depth(void) {
  static char text[HD_YAML_MAX_BYTES + 1];
  hd_yaml *yaml;
  int n = 0;
  for (int i = 0; i < HD_YAML_MAX_DEPTH; i++)
    text[n++] = '[';
  text[n++] = '1';
  for (int i = 0; i < HD_YAML_MAX_DEPTH; i++)
    text[n++] = ']';
  is_int(hd__yaml_parse(&yaml, ctx, text, (size_t)n, "a.yaml"), HD_OK, "%d levels are read", HD_YAML_MAX_DEPTH);
  hd__yaml_destroy(yaml);
  n = 0;
  for (int i = 0; i <= HD_YAML_MAX_DEPTH; i++)
    n += snprintf(text + n, 64, "%*sa: %s", i, "", i < HD_YAML_MAX_DEPTH ? "\n" : "1\n");
  refused(text, (size_t)n, HD_YAML_MAX_DEPTH + 1, "at most 16 levels", "17 levels");
  memset(text, '[', HD_YAML_MAX_BYTES);
  refused(text, HD_YAML_MAX_BYTES, 1, "at most 16 levels", "a million brackets");
  for (int i = 0; i + 2 <= HD_YAML_MAX_BYTES; i += 2)
    memcpy(text + i, "- ", 2);
  refused(text, HD_YAML_MAX_BYTES, 1, "at most 16 levels", "half a million lists in one line");
  for (int i = 0; i + 2 <= HD_YAML_MAX_BYTES; i += 2)
    memcpy(text + i, "? ", 2);
  refused(text, HD_YAML_MAX_BYTES, 1, "found a list or mapping", "half a million mappings as keys");
}

static void test_size(void) {
  static char text[HD_YAML_MAX_BYTES + 64];
  hd_yaml *yaml;
  int n = 0;
  while (n + 16 < HD_YAML_MAX_BYTES)
    n += snprintf(text + n, 16, "k%d:\n", n / 4);
  refused(text, (size_t)n, HD_YAML_MAX_KEYS + 1, "at most 1000 keys", "a hundred thousand keys");
  char *end = strstr(text, "\n");
  for (int i = 1; i < HD_YAML_MAX_KEYS; i++)
    end = strstr(end + 1, "\n");
  is_int(hd__yaml_parse(&yaml, ctx, text, (size_t)(end - text) + 1, "a.yaml"), HD_OK, "a thousand keys are read");
  is_int(hd__yaml_root(yaml)->count, HD_YAML_MAX_KEYS, "and all are there");
  hd__yaml_destroy(yaml);
  memset(text, 'x', sizeof text);
  memcpy(text, "a: ", 3);
  is_int(hd__yaml_parse(&yaml, ctx, text, HD_YAML_MAX_BYTES, "a.yaml"), HD_OK, "a value of 1 MiB is read");
  int64_t number;
  refuses_at(hd__yaml_int(&number, ctx, get(yaml, "a"), 0, 1), HD_E_FORMAT, ctx, "a.yaml:1: ", "found 'xxx",
             "and refused as a number");
  hd__yaml_destroy(yaml);
  held before = held_now();
  refuses(hd__yaml_parse(&yaml, ctx, text, HD_YAML_MAX_BYTES + 1, "a.yaml"), HD_E_FORMAT, ctx,
          "a.yaml: ", "found 1048577", "one byte more is refused");
  holds_same(before, "and nothing is left behind");
}

/* Deterministic damage: the result is a tree or one line with a place inside the text. */
static void test_damage(void) {
  static const char good[] =
      "model: net\ninput: [1, 28, 28]\nlayers:\n  - c1: {op: conv2d, out: 32, kernel: 3}\n  - r: {op: relu}\n"
      "  - f: {op: linear, out: 10, bias: \"true\"} # end\n";
  enum { LINES = 6, ROUNDS = 20000 };
  uint32_t chance = 1;
  int wrong = 0, trees = 0;
  held before = held_now();
  for (int round = 0; round < ROUNDS; round++) {
    char text[sizeof good];
    memcpy(text, good, sizeof good);
    size_t length = sizeof good - 1;
    for (int i = 0; i < 1 + round % 4; i++) {
      chance = chance * 1664525u + 1013904223u;
      text[(chance >> 8) % length] = (char)(round % 2 ? chance >> 24 : (uint32_t) " \n:[]{}&*!\"'#-,\t"[chance >> 28]);
    }
    length -= round % 5 == 0 ? (chance >> 16) % 64 : 0;
    hd_yaml *yaml;
    int line = 0, lines = 2;
    for (size_t i = 0; i < length; i++)
      lines += text[i] == '\n' || text[i] == '\r' || (unsigned char)text[i] == 0x85;
    hd_status status = hd__yaml_parse(&yaml, ctx, text, length, "a.yaml");
    trees += status == HD_OK;
    if (status == HD_OK)
      hd__yaml_destroy(yaml);
    else if (status != HD_E_FORMAT || sscanf(hd_ctx_message(ctx), "a.yaml:%d: expected ", &line) != 1 || line < 1 ||
             line > lines || strpbrk(hd_ctx_message(ctx), "\n\r")) {
      wrong++;
      diag("round %d: %s", round, hd_ctx_message(ctx));
    }
  }
  is_int(wrong, 0, "%d damaged texts: %d are still YAML, the others are refused with a line", ROUNDS, trees);
  ok(trees > ROUNDS / 20 && trees < ROUNDS - ROUNDS / 20, "the damage is neither harmless nor hopeless");
  holds_same(before, "and nothing is left behind");
}

static void test_files(void) {
  hd_yaml *yaml;
  put_file(in_scratch("good.yaml"), "a: 1\n", 5);
  put_file(in_scratch("bad.yaml"), "a: 1\na: 2\n", 10);
  put_file(in_scratch("empty.yaml"), "", 0);
  is_int(hd__yaml_read(&yaml, ctx, in_scratch("good.yaml")), HD_OK, "a file is read");
  is_str(get(yaml, "a")->source, in_scratch("good.yaml"), "and named");
  hd__yaml_destroy(yaml);
  is_int(hd__yaml_read(&yaml, ctx, in_scratch("empty.yaml")), HD_OK, "an empty file is read");
  hd__yaml_destroy(yaml);
  char place[SCRATCH_PATH_BYTES + 8];
  snprintf(place, sizeof place, "%s:2: ", in_scratch("bad.yaml"));
  held before = held_now();
  refuses(hd__yaml_read(&yaml, ctx, in_scratch("bad.yaml")), HD_E_FORMAT, ctx, place, "'a' again",
          "a bad file is refused");
  refuses(hd__yaml_read(&yaml, ctx, in_scratch("no.yaml")), HD_E_IO, ctx, in_scratch("no.yaml"), "No such file",
          "a missing one is");
  refuses(hd__yaml_read(&yaml, ctx, scratch()), HD_E_IO, ctx, scratch(), "Is a directory", "a folder is");
  refuses(hd__yaml_read(&yaml, ctx, "/dev/zero"), HD_E_FORMAT, ctx, "/dev/zero", "at most 1048576",
          "a file without end is");
  ok(!yaml, "and there is no tree");
  holds_same(before, "and nothing is left behind");
}

static void test_no_memory(void) {
  static const char text[] = "a: 1\nb: [1, 2, 3]\nc: {d: e, f: {g: h}}\n";
  hd_yaml *yaml = NULL;
  held before = held_now();
  survives_no_memory(hd__yaml_parse(&yaml, ctx, text, sizeof text - 1, "a.yaml"), !yaml, ctx, "a.yaml: out of memory",
                     10, "a text");
  hd__yaml_destroy(yaml);
  holds_same(before, "and nothing is left behind");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_whole_numbers();
  test_real_numbers("C");
  test_comma_locale();
  test_long_numbers();
  test_tree();
  test_getters();
  test_unknown_keys();
  test_bad_texts();
  test_depth();
  test_size();
  test_damage();
  test_files();
  test_no_memory();
  hd_ctx_destroy(ctx);
  return done_testing();
}
