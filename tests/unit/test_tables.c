/* Tables of people: what a first line is, which column is the label, texts, empty fields, columns of every scale. */
#include "scratch.h"

#include <math.h>

#include "data_trial.h"

static const char *put_text(const char *name, const char *text) {
  const char *path = in_scratch("%s", name);
  put_file(path, text, strlen(text));
  return path;
}

static void test_header(void) {
  static const struct {
    const char *text;
    int rows; /* 0: it must be asked */
    const char *what;
  } file[] = {
      {"a,b,c\n1,2,0\n3,4,1\n", 2, "texts over numbers"},
      {"1,2,0\n3,4,1\n", 2, "numbers"},
      {"2019,2020,grade\n1,2,A\n3,4,B\n5,6,A\n7,8,B\n", 4, "numbers, and a text that never comes again"},
      {"0,1,class\n1,2,A\n3,4,B\n", 2, "a usual name"},
      {"0,1,2\n1,a,x\n3,b,y\n5,a,z\n", 3, "columns' numbers over texts"},
      {"5.1,setosa\n4.9,setosa\n6,virginica\n", 3, "a label that comes again"},
      {"1,a\n2,b\n3,c\n", 3, "labels that are all different"},
      {"1,a\n2,b\n3,b\n4,c\n", 0, "a label that comes once, as another does"},
      {"7,0\na,0\nb,1\n", 0, "a number over texts"},
      {"p,x,s\ne,x,y\np,f,y\n", 3, "texts that come again"},
      {"q,r,s\na,b,c\nd,e,f\n", 0, "texts alone, all different"},
      {"0,1,2\n5,6,0\n1,3,1\n", 0, "columns' numbers over numbers"},
      {"0,2,1\n5,6,0\n1,3,1\n", 3, "small numbers that do not count up"},
      {"x,weight,Species\n1,2,0\n3,4,1\n", 2, "a usual name in another case"},
      {"x,weight,CLASS\nred,2,0\nblue,4,1\n", 2, "a usual name over texts"},
  };
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    hd_csv_table table;
    const hd_csv_options options = {.label = "", .categories = HD_CSV_CATEGORIES};
    const hd_status status = hd__csv_open(&table, ctx, put_text("h.csv", file[i].text), &options);
    is_int(status == HD_OK                               ? table.count
           : strstr(hd_ctx_message(ctx), "--header yes") ? 0
                                                         : -1,
           file[i].rows, "%s", file[i].what);
    hd__csv_close(&table);
  }
  for (int yes = 0; yes < 2; yes++) {
    hd_csv_table table;
    const hd_csv_options options = {
        .label = "", .categories = HD_CSV_CATEGORIES, .header = yes ? HD_CSV_HEADER_YES : HD_CSV_HEADER_NO};
    const hd_status status = hd__csv_open(&table, ctx, put_text("h.csv", "q,r,s\na,b,c\nd,e,f\n"), &options);
    is_int(status == HD_OK ? table.count : -1, 3 - yes, "--header %s", yes ? "yes" : "no");
    hd__csv_close(&table);
  }
}

/* The rows of a training set, before they are normalised. */
static void has_rows(const char *text, const char *label, const float *want, int rows, int width, const char *title) {
  char both[4096];
  mkdir(in_scratch("csv"), 0755);
  snprintf(both, sizeof both, "%s", text);
  put_text("csv/train.csv", both);
  put_text("csv/test.csv", both);
  request.table.label = label;
  hd_dataset *data = data_opens(in_scratch("csv"), title);
  const hd_split *train = data ? hd__dataset_train(data) : NULL;
  int wrong = !train || train->count != rows || train->width != width;
  for (int i = 0; !wrong && i < rows * width; i++)
    wrong += train->floats[i] != want[i];
  is_int(wrong, 0, "%s: its numbers", title);
  hd__dataset_close(data);
  request.table.label = NULL;
}

static void test_columns(void) {
  static const float label_first[] = {1, 2, 3, 4}, texts[] = {0, 1, 1, 0, 0, 1};
  static const float empty[] = {1, 0, 2, 1, 3, 0}, quoted[] = {1, 2};
  has_rows("price,a,b\n10.5,1,2\n20,3,4\n", "price", label_first, 2, 2, "--label");
  has_rows("a,b,Target\n1,2,0.5\n3,4,1\n", NULL, label_first, 2, 2, "a usual name in another case");
  has_rows(",a,b,y\n0,1,2,0\n1,3,4,1\n", "y", label_first, 2, 2, "an index");
  has_rows("town,class\nUlm,0\nBonn,1\nUlm,1\n", NULL, texts, 3, 2, "texts");
  has_rows("a,class\n1,0\n,1\n3,1\n", NULL, empty, 3, 2, "an empty field is the mean");
  has_rows("a,class\n1,0\nNaN,1\n3,1\n", NULL, empty, 3, 2, "so is NaN");
  has_rows("a,class\n1,\"two\nlines\"\n2,\"a \"\"quote\"\"\"\n", NULL, quoted, 2, 1, "line ends and quotes in quotes");
}

static void test_names(void) {
  hd_dataset *data;
  mkdir(in_scratch("csv"), 0755);
  put_text("csv/train.csv", "a,b,class\n1,20,0\n3,40,1\n");
  put_text("csv/test.csv", "class,b,a\n0,60,5\n");
  data = data_opens(in_scratch("csv"), "columns in another order");
  const hd_split *test = data ? hd__dataset_test(data) : NULL;
  ok(test && test->floats[0] == 5 && test->floats[1] == 60, "are found by their names");
  hd__dataset_close(data);
  put_text("csv/train.csv", "1,x\nx,0\n2,x\n");
  data = data_opens(put_text("mixed.csv", "a,class\n1,x\n2,1\n3,x\n4,1\n5,x\n"), "labels of texts and numbers");
  ok(data && hd__dataset_train(data)->classes == 2 && !strcmp(hd__dataset_train(data)->class_names[0], "1"),
     "are texts, whichever comes first");
  hd__dataset_close(data);
}

/* Columns whose numbers differ by less than floats can tell. */
static void test_scales(void) {
  char text[4096] = "time,tiny,same,class\n";
  double wrong = 0, sum[3] = {0}, squares[3] = {0};
  for (int i = 0; i < 10; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%.12f,7,%d\n", 1700000000 + i, 1 + 1e-9 * i, i % 2);
  mkdir(in_scratch("csv"), 0755);
  put_text("csv/train.csv", text);
  put_text("csv/test.csv", text);
  request.normalize = HD_NORMALIZE_COLUMN;
  hd_dataset *data = data_opens(in_scratch("csv"), "time stamps");
  for (int i = 0; data && i < 30; i++) {
    sum[i % 3] += (double)hd__dataset_train(data)->floats[i];
    squares[i % 3] += (double)hd__dataset_train(data)->floats[i] * (double)hd__dataset_train(data)->floats[i];
    wrong = fmax(wrong, fabs((double)hd__dataset_test(data)->floats[i] - (double)hd__dataset_train(data)->floats[i]));
  }
  ok(fabs(sum[0]) < 1e-5 && fabs(squares[0] - 10) < 1e-5, "time stamps have mean 0 and deviation 1: %g, %g", sum[0],
     squares[0]);
  ok(fabs(sum[1]) < 1e-5 && fabs(squares[1] - 10) < 1e-5, "so have numbers near 1: %g, %g", sum[1], squares[1]);
  ok(sum[2] == 0 && squares[2] == 0, "a constant is 0");
  ok(wrong == 0 && data && data->statistics.mean[0] == 0 && data->statistics.std[0] == 1, "test rows are read alike");
  hd__dataset_close(data);
  request.normalize = HD_NORMALIZE_CHANNEL;
}

static void test_refused(void) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"a,class\n1,0\nx,1\n3,1\n4,0\n", "bad.csv:3: expected a finite number in column 'a', found 'x'"},
      {"a,b,class\n,1,0\n,2,1\n", "expected some fields in column 'a', found only empty ones"},
      {"a,b\n1,2\n", "expected the label's column 'price' in the first line, found none"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    request.table.label = i == 2 ? "price" : NULL;
    data_refused(put_text("bad.csv", bad[i].text), HD_E_FORMAT, "", bad[i].says, bad[i].says);
  }
  request.table = (hd_csv_options){.label = NULL, .categories = 2};
  data_refused(put_text("bad.csv", "a,class\nx,0\ny,1\nz,1\n"), HD_E_FORMAT, "",
               "expected numbers or up to 2 different texts in column 'a', found more", "too many texts");
  request.table = (hd_csv_options){.refuses_empty = true};
  data_refused(put_text("bad.csv", "a,class\n1,0\n,1\n"), HD_E_FORMAT, "",
               "bad.csv:3: expected no empty field with --missing refuse, found one in column 'a'", "--missing refuse");
  request.table = (hd_csv_options){.label = NULL};
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_header();
  test_columns();
  test_names();
  test_scales();
  test_refused();
  data_survives_no_memory(put_text("m.csv", ",a,town,class\n0,1.1,x,p\n1,,y,q\n2,3.3,x,p\n3,4.4,y,q\n"),
                          "a table with texts and empty fields");
  request.normalize = HD_NORMALIZE_COLUMN;
  data_survives_no_memory(in_scratch("m.csv"), "normalised by columns");
  hd_ctx_destroy(ctx);
  return done_testing();
}
