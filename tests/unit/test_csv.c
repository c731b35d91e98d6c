/* CSV files: numbers, classes and targets arrive as they were written, in any locale; a bad line is refused by its
 * number. */
#include "scratch.h"

#include "comma_locale.h"
#include "data_trial.h"

#define FIFTY "12345678901234567890123456789012345678901234567890"
#define LONG_NAME FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY

static const char *put_text(const char *name, const char *text) {
  const char *path = in_scratch("%s", name);
  put_file(path, text, strlen(text));
  return path;
}

static void make_folder(const char *train, const char *test) {
  mkdir(in_scratch("csv"), 0755);
  put_text("csv/train.csv", train);
  put_text("csv/test.csv", test);
}

static hd_dataset *opens(const char *train, const char *test, const char *title) {
  make_folder(train, test);
  return data_opens(in_scratch("csv"), title);
}

static void refused(const char *train, const char *test, const char *says, const char *title) {
  make_folder(train, test);
  data_refused(in_scratch("csv"), HD_E_FORMAT, "", says, title);
}

static void is_rows(const hd_dataset *data, const float *want, int rows, int width, const char *title) {
  const hd_split *train = data ? hd__dataset_train(data) : NULL;
  int wrong = !train || train->count != rows || train->width != width || !train->flat;
  for (int i = 0; !wrong && i < rows * width; i++)
    wrong += train->floats[i] != want[i];
  is_int(wrong, 0, "%s: rows are the file's", title);
}

static void test_classes(void) {
  static const float want[] = {1, -2.5f, 0.125f, 3e4f};
  static const char *const file[] = {
      "1,-2.5,0\n0.125,3e4,2\n",
      ("\xef\xbb\xbf"
       "1,-2.5,0\r\n\r\n0.125,3e4,2"),
      "a,b,class\r1,-2.5,0\r\r0.125,3e4,2\r",
      "a,b,class\n1,-2.5,0\n0.125,3e4,2\n\n\n",
      "a,label,b\n1,0,-2.5\n0.125,2,3e4\n",
      "\"label\",\"a, first\",\"b \"\"second\"\"\"\n0,\"1\",-2.5\n2, 0.125 ,3e4\n",
  };
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    hd_dataset *data = opens(file[i], file[i], "classes");
    is_rows(data, want, 2, 2, "classes");
    const hd_split *train = data ? hd__dataset_train(data) : NULL;
    ok(train && train->classes == 3 && train->labels[0] == 0 && train->labels[1] == 2, "classes are whole numbers");
    hd__dataset_close(data);
  }
}

static void test_targets(void) {
  static const float want[] = {1, 2};
  hd_dataset *data = opens("1,0.5\n2,3\n", "1,4\n", "targets");
  is_rows(data, want, 2, 1, "targets");
  const hd_split *train = data ? hd__dataset_train(data) : NULL, *test = data ? hd__dataset_test(data) : NULL;
  ok(train && train->outputs == 1 && train->targets[0] == 0.5f && train->targets[1] == 3 && test->targets[0] == 4,
     "one number that is not whole makes all of them targets");
  hd__dataset_close(data);
  data = opens("target,a\n5,1\n70000,2\n", "target,a\n5,1\n", "a column target");
  is_rows(data, want, 2, 1, "a column target");
  ok(data && hd__dataset_train(data)->targets && hd__dataset_train(data)->targets[1] == 70000, "is one, whole or not");
  hd__dataset_close(data);
}

static void test_texts(void) {
  hd_dataset *data =
      opens("x,species\n1,versicolor\n2,setosa\n3,versicolor\n4,virginica\n", "x,species\n5,virginica\n", "texts");
  const hd_split *train = data ? hd__dataset_train(data) : NULL;
  ok(train && train->classes == 3 && train->labels[0] == 1 && train->labels[1] == 0 && train->labels[3] == 2 &&
         !strcmp(train->class_names[0], "setosa") && hd__dataset_test(data)->labels[0] == 2,
     "are classes, numbered in their order");
  hd__dataset_close(data);
  refused("1,a\n2,b\n", "1,a\n2,c\n", "test.csv:2: expected a class of the training set, found 'c'", "a new class");
}

static void test_one_file(void) {
  char text[1024] = "";
  for (int i = 0; i < 20; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d\n", i, i % 2);
  hd_dataset *data;
  is_int(open_data(&data, put_text("one.csv", text)), HD_OK, "one file opens");
  int wrong = !data || hd__dataset_train(data)->count != 16 || hd__dataset_test(data)->count != 4;
  for (int i = 0; !wrong && i < 16; i++)
    wrong += hd__dataset_train(data)->labels[i] != (int)hd__dataset_train(data)->floats[i] % 2;
  is_int(wrong, 0, "a fifth of it is the test set, with its labels");
  hd__dataset_close(data);
}

static void test_bad(void) {
  static const struct {
    const char *train, *test, *says;
  } bad[] = {
      {"1,2,0\n3,0\n", "1,2,0\n", "train.csv:2: expected 3 fields as in the first line, found 2"},
      {"1,2,0\n\n3,4,5,0\n", "1,2,0\n", "train.csv:3: expected 3 fields as in the first line, found 4"},
      {"c,b,class\n\"x\ny\",2,0\n3,3,1,1\n", "1,2,0\n",
       "train.csv:4: expected 3 fields as in the first line, found 4"}, /* a field holds the end of a line */
      {"c,b,class\r\"x\ry\",2,0\r3,3,1,1\r", "1,2,0\n",
       "train.csv:4: expected 3 fields as in the first line, found 4"}, /* lines end with CR alone */
      {"c,b,class\r\n\"x\r\ny\",2,0\r\n3,3,1,1\r\n", "1,2,0\n",
       "train.csv:4: expected 3 fields as in the first line, found 4"},
      {"a,b,c\n1,2,0\n", "a,b,c\n1,x,0\n", "test.csv:2: expected a finite number in column 'b', found 'x'"},
      {"1,2,0\n", "a,b,c\n1,2,0\n", "test.csv:1: expected no header as in training, found one"},
      {"a,b,c\n1,2,0\n", "1,2,0\n", "test.csv:1: expected the label's column 'c' in the first line, found none"},
      {"1,2,0\n1,3,0\n", "1,,0\n", "test.csv:1: expected no empty field in column 2, as in training, found one"},
      {"1,nan,0\n2,nan,1\n", "1,2,0\n", "train.csv: expected some fields in column 2, found only empty ones"},
      {"1,2,0\n2,inf,1\n", "1,2,0\n", "column 2, found 'inf'"},
      {"1,2,0\n2,1e39,1\n", "1,2,0\n", "column 2, found '1e39'"},
      {"1,2,0\n2,0x10,1\n", "1,2,0\n", "column 2, found '0x10'"},
      {"1,2,0\n2,\"3,5\",1\n", "1,2,0\n", "write a decimal point, not a comma"},
      {"a;b;c\n1,5;2,5;0\n", "1,2,0\n", "separate fields by commas"},
      {"1,5;2,5;0\n1,5;2,5;0\n", "1,2,0\n", "train.csv:1"},
      {"1\n2\n", "1\n", "at least two columns"},
      {"", "1,0\n", "train.csv: expected at least one row of numbers, found none"},
      {"a,b\n", "1,0\n", "train.csv: expected at least one row of numbers, found none"},
      {"1,2,0\n", "\n\n", "test.csv: expected at least one row"},
      {"label,a\n0.5,1\n1,1\n", "label,a\n0,1\n",
       "train.csv:2: expected a class from 0 to 65535 as label, found '0.5'"},
      {"label,a\n70000,1\n1,1\n", "label,a\n0,1\n", "found '70000'; train with --loss mse"},
      {"label,target,a\n1,1,1\n", "label,a\n0,1\n",
       "expected one column called label, target, class or species, found several; name one"},
      {"label,a\n1,1\n", "label,b\n1,1\n", "test.csv: expected column 'a' as in training, found none; add it"},
      {"label,a\n1,1\n", "a,b,label\n1,1,1\n", "test.csv: expected only columns of training, found column 'b' too"},
      {"a,a,label\n1,1,0\n", "a,a,label\n1,1,0\n",
       "train.csv:1: expected columns with different names, found 'a' twice"},
      {"2,a\n1,x\n1,y\n1,x\n", "1,x\n", "train.csv:1: expected a first line that is clearly a header or not"},
      {"1,a" LONG_NAME "b\n2,a" LONG_NAME "c\n", "1,x\n",
       "train.csv: expected class names that differ in their first 255 bytes"},
      {"1,,0\n", "1,,0\n", "found only empty ones; drop the column"},
      {"1,2,0\n", "1,0\n", "test.csv: expected 3 columns"},
      {"1,\"2,0\n", "1,2,0\n", "train.csv:1: expected a quote at the end of a field"},
      {"1,\"2\"x,0\n", "1,2,0\n", "train.csv:1: expected a comma after a quoted field, found 'x'"},
      {"1,1,\n2,2,0\n", "1,1,0\n", "train.csv:1: expected a label, found an empty field"},
      {"1,1,a\n2,2,b\n", "1,1,a\n2,1,\n", "test.csv:2: expected a label, found an empty field"},
      {"1,1,a\n2,2,\"NA\"\n", "1,1,c\n", "test.csv:1: expected a class of the training set, found 'c'"},
      {"c,class\nx,0\ny,1\n", "c,class\nz,0\n",
       "test.csv:2: expected a text of the training set in column 'c', found 'z'"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(bad[i].train, bad[i].test, bad[i].says, bad[i].says);
}

/* Lines that promise more numbers than there are bytes. */
static void test_greedy(void) {
  static char text[1 << 18];
  size_t at = 0;
  for (int i = 0; i < 60000; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s0", i ? "," : "");
  for (int i = 0; i < 60000; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "\n1");
  refused(text, "1,0\n", "train.csv:2: expected 60000 fields", "a wide line over many short ones");
}

static void test_locale(void) {
  static const float want[] = {1.5f, 2.25f};
  if (!set_comma_locale()) {
    skip(1, "no locale with decimal commas is installed");
    return;
  }
  hd_dataset *data = opens("1.5,0\n2.25,1\n", "1.5,0\n", "in a locale with decimal commas");
  is_rows(data, want, 2, 1, "in a locale with decimal commas");
  hd__dataset_close(data);
  setlocale(LC_ALL, "C");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_classes();
  test_targets();
  test_texts();
  test_one_file();
  test_bad();
  test_greedy();
  test_locale();
  data_survives_no_memory(put_text("one.csv", "1,0\n2,1\n3,0\n"), "classes");
  data_survives_no_memory(put_text("one.csv", "1,a\n2,b\n3,a\n"), "texts");
  hd_ctx_destroy(ctx);
  return done_testing();
}
