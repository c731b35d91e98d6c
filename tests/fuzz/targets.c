/* The targets; see fuzz.h. A broken promise is an abort, which both drivers report with the input at hand. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/safetensors.h"
#include "data/dataset/dataset.h"
#include "data/formats/formats.h"
#include "data/images/image_file.h"
#include "data/formats/idx.h"
#include "data/formats/named_arrays.h"
#include "heddle/transform.h"
#include "graph/model.h"
#include "onnx/onnx.h"
#include "plan/plan.h"
#include "train/checkpoint/checkpoint.h"
#include "train/settings/config.h"
#include "train/placement/run_plan.h"
#include "train/settings/run_record.h"

long fuzz_refused, fuzz_taken;

static void demand(int condition, const char *what, const char *found) {
  if (condition)
    return;
  fprintf(stderr, "expected %s, found '%s'\n", what, found);
  abort();
}

/* One line that names what was expected, or where memory or the disk ended. */
static void judge(hd_status status, hd_ctx *ctx) {
  const char *message = hd_ctx_message(ctx);
  if (status == HD_OK) {
    fuzz_taken++;
    return;
  }
  fuzz_refused++;
  demand(*message != 0, "a message", message);
  for (const char *c = message; *c; c++)
    demand((unsigned char)*c >= ' ' && *c != 0x7f, "one line without control characters", message);
  demand(strstr(message, "expect") || strstr(message, "out of memory"), "what was expected in a message", message);
}

static hd_ctx *context(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    abort();
  return ctx;
}

/* A folder of this process, gone when it ends. */
static char folder[64];

static void remove_folder(void) { hd__file_remove_folder(folder); }

/* Writes the bytes to a file of that name; returns its path, valid until the next call. */
static const char *put(const char *name, const uint8_t *bytes, size_t length) {
  static char path[128];
  if (!*folder) {
    snprintf(folder, sizeof folder, "%s/heddle-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder) || atexit(remove_folder) != 0)
      abort();
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
    abort();
  return path;
}

static void read_idx(const char *path, int rank) {
  hd_ctx *ctx = context();
  hd_idx idx;
  hd_status status = hd__idx_read(&idx, ctx, path, rank);
  judge(status, ctx);
  if (status == HD_OK) {
    unsigned sum = 0;
    for (int64_t i = 0; i < idx.length; i++)
      sum += idx.bytes[i];
    demand(sum <= 255u * (uint64_t)idx.length && idx.rank == rank, "the requested rank", path);
    hd__idx_fini(&idx);
  }
  hd_ctx_destroy(ctx);
}

/* The first byte selects how the rest is read: as a plain file, as a gzip file, or packed into a good gzip file
 * first. */
static void fuzz_idx(const uint8_t *bytes, size_t length) {
  enum { PLAIN, GZIP, PACKED, WAYS };
  if (length == 0)
    return;
  int way = bytes[0] % WAYS, rank = bytes[0] & 0x80 ? 1 : 3;
  bytes++;
  length--;
  if (way != PACKED) {
    read_idx(put(way == PLAIN ? "data" : "data.gz", bytes, length), rank);
    return;
  }
  uLong room = compressBound(length) + 32;
  uint8_t *packed = malloc(room);
  z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)length, .next_out = packed, .avail_out = (uInt)room};
  if (!packed || deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
      deflate(&z, Z_FINISH) != Z_STREAM_END)
    abort();
  read_idx(put("data.gz", packed, z.total_out), rank);
  deflateEnd(&z);
  free(packed);
}

/* A model file, and the plans for training and for inference that follow from it. */
static void fuzz_model(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  for (int train = 0; train < 2; train++) {
    hd_graph *graph;
    hd_plan *plan = NULL;
    char *name;
    hd_status status = hd__model_parse(&graph, &name, ctx, (const char *)bytes, length, "m.yaml");
    if (status != HD_OK) {
      demand(!strncmp(hd_ctx_message(ctx), "m.yaml:", 7), "a message that begins with its place", hd_ctx_message(ctx));
    } else {
      const hd_plan_settings settings = {.train = train, .clip_norm = length % 2, .recompute = train};
      status = hd__plan_create(&plan, ctx, graph, hd__kernels_reference(), &settings);
      hd__free(name);
    }
    judge(status, ctx);
    hd__plan_destroy(plan);
  }
  hd_ctx_destroy(ctx);
}

/* --parameters, for a network of two layers. */
static hd_status apply_rules(const hd_config *config, hd_ctx *ctx) {
  static const char text[] = "model: m\ninput: [1, 4, 4]\nlayers:\n  - conv1: {op: conv2d, out: 2, kernel: 2}\n"
                             "  - flat: {op: flatten}\n  - fc1: {op: linear, out: 3}\n";
  hd_graph *graph;
  hd_status status = hd__model_parse(&graph, NULL, ctx, text, sizeof text - 1, "m.yaml");
  demand(status == HD_OK, "a network", hd_ctx_message(ctx));
  status = hd__planned_rules(graph, ctx, hd__settings(config)->parameters);
  hd__graph_destroy(graph);
  return status;
}

/* --transforms, for small images, and the transform of one. */
static hd_status apply_transforms(const hd_config *config, hd_ctx *ctx) {
  static const uint8_t pixels[3 * 9 * 7];
  static const double mean[3] = {0.5, 0.5, 0.5};
  const char *list = hd_config_get(config, "transforms");
  const hd_pipeline_input input = {.struct_bytes = sizeof input,
                                   .channels = 3,
                                   .height = 9,
                                   .width = 7,
                                   .bytes = 1,
                                   .classes = 10,
                                   .mean = mean,
                                   .std = mean};
  hd_pipeline *p;
  hd_status status = *list ? hd_pipeline_create(&p, ctx, list, &input, HD_PIPELINE_TRAINING) : HD_OK;
  if (status != HD_OK || !*list)
    return status;
  const hd_pipeline_shape *shape = hd_pipeline_shape_of(p);
  const int64_t elems = (int64_t)shape->height * shape->width * shape->channels;
  if (elems < 1 << 14 && shape->scratch_bytes < 1 << 22) {
    const hd_sample sample = {.pixels = pixels};
    float *image = malloc((size_t)elems * sizeof *image), *target = malloc((size_t)shape->targets * sizeof *target + 1);
    void *scratch = aligned_alloc(64, shape->scratch_bytes);
    if (!image || !target || !scratch)
      abort();
    hd_pipeline_apply(image, target, p, &sample, &sample, &(hd_sample_key){.count = 2}, scratch);
    free(image);
    free(target);
    free(scratch);
  }
  hd_pipeline_destroy(p);
  return HD_OK;
}

static void fuzz_config(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  hd_config *config;
  if (hd_config_create(&config, ctx) != HD_OK)
    abort();
  hd_status status = hd_config_load(config, ctx, put("config.yaml", bytes, length));
  if (status == HD_OK)
    status = hd__config_complete(config, ctx);
  if (status == HD_OK)
    status = apply_rules(config, ctx);
  if (status == HD_OK)
    status = apply_transforms(config, ctx);
  judge(status, ctx);
  for (int i = 0; hd_option_at(i); i++)
    demand(hd_config_get(config, hd_option_at(i)->name) != NULL, "a value of each option", hd_option_at(i)->name);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
}

static void fuzz_safetensors(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  hd_st_list list;
  char hex[65];
  hd_status status = hd__st_parse(&list, ctx, "model.safetensors", bytes, length);
  judge(status, ctx);
  if (status == HD_OK) {
    demand(hd__st_digest(hex, ctx, &list) == HD_OK && strlen(hex) == 64, "a digest of what was read", hex);
    for (int i = 0; i < list.count; i++)
      demand(hd__st_find(&list, list.tensor[i].name) == &list.tensor[i], "a tensor by its name", list.tensor[i].name);
    hd__st_fini(&list);
  }
  hd_ctx_destroy(ctx);
}

#ifdef HD_HAVE_ONNX
/* An ONNX file: what is taken is a network with all of its weights. */
static void fuzz_onnx(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  hd_onnx_model model;
  hd_status status = hd__onnx_parse(&model, ctx, "m.onnx", bytes, length);
  judge(status, ctx);
  if (status == HD_OK) {
    hd_graph *graph;
    demand(hd__model_parse(&graph, NULL, ctx, model.text, strlen(model.text), "m.yaml") == HD_OK, "a model",
           model.text);
    for (int p = 0; p < graph->param_count; p++)
      demand(hd__st_find(&model.weights, graph->values[graph->params[p].value].name) != NULL, "a weight", model.text);
    hd__graph_destroy(graph);
    hd__onnx_fini(&model);
  }
  hd_ctx_destroy(ctx);
}
#endif

/* The first byte is the size that the picture is fitted to. */
static void fuzz_png(const uint8_t *bytes, size_t length) {
  enum { MOST_SIDE = 64 };
  uint8_t fitted[MOST_SIDE * MOST_SIDE];
  hd_ctx *ctx = context();
  hd_picture picture;
  int side = length > 0 ? 1 + bytes[0] % MOST_SIDE : 1;
  hd_status status =
      hd__png_parse(&picture, ctx, &(hd_picture_file){"p.png", bytes + (length > 0), length - (length > 0)});
  if (status == HD_OK) {
    status = hd__fit_picture(fitted, ctx, "p.png", &picture, side, MOST_SIDE + 1 - side);
    hd__picture_fini(&picture);
  }
  judge(status, ctx);
  hd_ctx_destroy(ctx);
}

/* A run.json, as far as it is read before data and weights are. */
static void fuzz_record(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  hd_config *config;
  json_t *record = NULL;
  put("run.json", bytes, length);
  if (hd_config_create(&config, ctx) != HD_OK)
    abort();
  hd_status status = hd__checkpoint_record(&record, ctx, folder);
  if (status == HD_OK)
    status = hd__record_adopt(config, ctx, record, folder);
  if (status == HD_OK)
    status = hd__config_complete(config, ctx);
  judge(status, ctx);
  json_decref(record);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
}

/* Opens a data set, and reads every sample of it. */
static void open_data(const char *path) {
  hd_ctx *ctx = context();
  hd_dataset *data;
  hd_status status = hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = path, .ignored = -1});
  judge(status, ctx);
  if (status == HD_OK) {
    const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
    for (int s = 0; s < 2; s++) {
      void *elems = malloc((size_t)hd__split_most_bytes(split[s]));
      int size[2];
      for (int64_t i = 0; elems && i < split[s]->count; i++) {
        demand(hd__split_get(elems, size, ctx, split[s], i) == HD_OK, "a sample", hd_ctx_message(ctx));
        demand(!split[s]->labels || split[s]->labels[i] < split[s]->classes, "a class", path);
      }
      free(elems);
    }
    demand(data->statistics.std[0] > 0, "a standard deviation", path);
    hd__dataset_close(data);
  }
  hd_ctx_destroy(ctx);
}

static void fuzz_csv(const uint8_t *bytes, size_t length) { open_data(put("data.csv", bytes, length)); }

static void fuzz_text(const uint8_t *bytes, size_t length) { open_data(put("data.txt", bytes, length)); }

static void fuzz_tokens(const uint8_t *bytes, size_t length) { open_data(put("data.bin", bytes, length)); }

static void fuzz_npz(const uint8_t *bytes, size_t length) { open_data(put("data.npz", bytes, length)); }

/* A whole file, and each of its elements. */
static void fuzz_npy(const uint8_t *bytes, size_t length) {
  hd_ctx *ctx = context();
  hd_npy npy;
  hd_status status = hd__npy_parse(&npy, ctx, "a.npy", bytes, length);
  judge(status, ctx);
  if (status == HD_OK) {
    int64_t last = 0;
    for (int i = 0; i < npy.rank; i++)
      last += npy.count > 0 ? (npy.size[i] - 1) * npy.stride[i] : 0;
    demand(npy.count == 0 || last == npy.count - 1, "strides that reach the last element", "others");
    volatile float sum = 0;
    for (int64_t i = 0; i < npy.count; i++)
      sum += hd__npy_float(&npy, i) + (npy.kind == 'f' ? 0 : (float)hd__npy_int(&npy, i));
    (void)sum;
  }
  hd_ctx_destroy(ctx);
}

/* The first byte selects the file: training records, test records, or names. */
static void fuzz_cifar(const uint8_t *bytes, size_t length) {
  static uint8_t good[2 * 3074];
  char path[128];
  if (length == 0)
    return;
  put("unused", bytes, 0);
  snprintf(path, sizeof path, "%s/cifar", folder);
  mkdir(path, 0755);
  for (int i = 0; i < 3; i++) {
    static const char *const name[] = {"cifar/train.bin", "cifar/test.bin", "cifar/fine_label_names.txt"};
    const bool this = bytes[0] % 3 == i;
    if (!this && i == 2)
      unlink(put(name[i], bytes, 0));
    else
      put(name[i], this ? bytes + 1 : good, this ? length - 1 : sizeof good);
  }
  open_data(path);
  hd__file_remove_folder(path);
}

/* A picture of a class, beside a good one. */
static void fuzz_photo(const uint8_t *bytes, size_t length) {
  enum { MOST_BYTES = 1 << 22 };
  hd_ctx *ctx = context();
  hd_photo_head head;
  hd_status status = hd__photo_head(&head, ctx, &(hd_picture_file){"p.jpg", bytes, length}, (hd_photo_rules){0});
  if (status == HD_OK && (int64_t)head.size[0] * head.size[1] <= MOST_BYTES) {
    const int channels = head.grey ? 1 : 3;
    uint8_t *planes = malloc((size_t)head.size[0] * (size_t)head.size[1] * (size_t)channels);
    if (planes)
      status = hd__photo_read(planes, channels, head.size, ctx, &(hd_picture_file){"p.jpg", bytes, length},
                              (hd_photo_rules){0});
    free(planes);
  }
  judge(status, ctx);
  hd_ctx_destroy(ctx);
}

const fuzz_target fuzz_targets[] = {
    {"idx", fuzz_idx},       {"model", fuzz_model},
    {"config", fuzz_config}, {"safetensors", fuzz_safetensors},
    {"png", fuzz_png},       {"record", fuzz_record},
    {"npy", fuzz_npy},
#ifdef HD_HAVE_ONNX
    {"onnx", fuzz_onnx},
#endif
#ifdef HD_HAVE_LIBZIP
    {"npz", fuzz_npz},
#endif
    {"csv", fuzz_csv},       {"cifar", fuzz_cifar},
    {"photo", fuzz_photo},   {"text", fuzz_text},
    {"tokens", fuzz_tokens}, {NULL, NULL},
};
