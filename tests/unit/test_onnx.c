/* ONNX files of many nodes with long names: a node compares names a bounded number of times, most often to see whether
 * an expression of those before is an activation; and a caller with little stack reads them. The bytes are written
 * here, in protocol buffers' wire format; comparisons are counted in a strcmp that the linker puts in place of the C
 * library's (tests/files.mk). */
#include "tap.h"

#include <pthread.h>
#include <stdint.h>

#include "onnx/onnx.h"

#ifdef HD_HAVE_ONNX

enum { LAYERS = 900, NAME_BYTES = 800, MOST_COMPARISONS = 1500, LEAST_STACK_BYTES = 240 << 10 };
enum { LEVELS = 90, NEGS = 31, OWN_STACK_BYTES = 4 << 20 };

static long comparisons; /* of two names */

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b) {
  comparisons += *a == 'x' && *b == 'x';
  return __real_strcmp(a, b);
}

typedef struct bytes {
  unsigned char *at;
  size_t length, room;
} bytes;

static void put(bytes *b, const void *from, size_t length) {
  if (b->length + length > b->room)
    b->at = realloc(b->at, b->room = 2 * (b->length + length));
  memcpy(b->at + b->length, from, length);
  b->length += length;
}

static void put_number(bytes *b, uint64_t value) {
  for (; value > 0x7f; value >>= 7)
    put(b, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
  put(b, &(unsigned char){(unsigned char)value}, 1);
}

static void put_int(bytes *b, int field, uint64_t value) {
  put_number(b, (uint64_t)field << 3);
  put_number(b, value);
}

static void put_block(bytes *b, int field, const void *from, size_t length) {
  put_number(b, (uint64_t)field << 3 | 2);
  put_number(b, length);
  put(b, from, length);
}

/* A field that is a message; the message is released. */
static void put_message(bytes *b, int field, bytes *message) {
  put_block(b, field, message->at, message->length);
  free(message->at);
  *message = (bytes){0};
}

/* "xxx...x7m" */
static void put_name(bytes *b, int field, int i, char kind) {
  static char name[NAME_BYTES + 16];
  memset(name, 'x', NAME_BYTES);
  snprintf(name + NAME_BYTES, 16, "%d%c", i, kind);
  put_block(b, field, name, strlen(name));
}

/* The graph's input "x". */
static void put_input(bytes *graph) {
  bytes dim = {0}, shape = {0}, type = {0}, outer = {0}, value = {0};
  for (int i = 0; i < 4; i++) {
    put_int(&dim, 1, 2);
    put_message(&shape, 1, &dim);
  }
  put_int(&type, 1, 1);
  put_message(&type, 2, &shape);
  put_message(&outer, 1, &type);
  put_block(&value, 1, "x", 1);
  put_message(&value, 2, &outer);
  put_message(graph, 11, &value);
}

/* A Relu of the input, or the input, behind it products with constants: each may end an expression of those before. */
static bytes chain_of_products(const char *first, int products) {
  bytes graph = {0}, model = {0}, value = {0};
  for (int i = 0; i <= products; i++) {
    bytes node = {0}, tensor = {0};
    if (i) {
      put_name(&node, 1, i - 1, 'm');
      put_name(&node, 1, i, 'c');
    } else {
      put_block(&node, 1, "x", 1);
    }
    put_name(&node, 2, i, 'm');
    put_block(&node, 4, i ? "Mul" : first, strlen(i ? "Mul" : first));
    put_message(&graph, 1, &node);
    if (!i)
      continue;
    put_int(&tensor, 2, 1);
    put_name(&tensor, 8, i, 'c');
    put_block(&tensor, 9, &(float){1}, sizeof(float));
    put_message(&graph, 5, &tensor);
  }
  put_input(&graph);
  put_name(&value, 1, products, 'm');
  put_message(&graph, 12, &value);
  put_message(&model, 7, &graph);
  return model;
}

/* "r3n12", or of no number "r3" */
static void put_short_name(bytes *b, int field, int level, int neg) {
  char name[32];
  snprintf(name, sizeof name, neg < 0 ? "r%d" : "r%dn%d", level, neg);
  put_block(b, field, level < 0 ? "x" : name, level < 0 ? 1 : strlen(name));
}

/* Reshapes of the input, each to the shape of the one before behind NEGS operators: a look for the last shape is one
 * into all of them. */
static bytes nest_of_shapes(void) {
  bytes graph = {0}, model = {0}, value = {0};
  for (int level = 0; level < LEVELS; level++)
    for (int i = 0; i <= NEGS + 1; i++) {
      const char *op = i == 0 ? "Shape" : i <= NEGS ? "Neg" : "Reshape";
      bytes node = {0};
      if (i == 0 || i > NEGS)
        put_short_name(&node, 1, i ? -1 : level - 1, -1);
      if (i > 0)
        put_short_name(&node, 1, level, i - 1);
      put_short_name(&node, 2, level, i <= NEGS ? i : -1);
      put_block(&node, 4, op, strlen(op));
      put_message(&graph, 1, &node);
    }
  put_input(&graph);
  put_short_name(&value, 1, LEVELS - 1, -1);
  put_message(&graph, 12, &value);
  put_message(&model, 7, &graph);
  return model;
}

typedef struct reading {
  bytes file;
  char said[256];
} reading;

static void *read_file(void *arg) {
  reading *is = arg;
  hd_ctx *ctx = NULL;
  hd_onnx_model model;
  if (hd_ctx_create(&ctx) == HD_OK && hd__onnx_parse(&model, ctx, "long.onnx", is->file.at, is->file.length) != HD_OK)
    snprintf(is->said, sizeof is->said, "%.255s", strrchr(hd_ctx_message(ctx), ':'));
  hd_ctx_destroy(ctx);
  return NULL;
}

/* By a thread with as little stack as a caller may have. */
static void read_with_little_stack(bytes file, const char *what, const char *says) {
  reading is = {.file = file};
  pthread_attr_t how;
  pthread_t id;
  if (pthread_attr_init(&how) != 0 || pthread_attr_setstacksize(&how, LEAST_STACK_BYTES) != 0 ||
      pthread_create(&id, &how, read_file, &is) != 0)
    bail_out("no thread");
  pthread_join(id, NULL);
  pthread_attr_destroy(&how);
  ok(strstr(is.said, says), "%s and %d KB of stack%s", what, LEAST_STACK_BYTES / 1024, is.said);
  free(is.file.at);
}

/* Threads of the library's have no more stack than it asks for, as where `ulimit -s` is small or unlimited. Before the
 * first of them, since a thread gets the stack of one that ended. */
static void use_little_stack(void) {
  pthread_attr_t how;
  if (pthread_attr_init(&how) != 0 || pthread_attr_setstacksize(&how, OWN_STACK_BYTES) != 0 ||
      pthread_setattr_default_np(&how) != 0)
    bail_out("no size of stacks");
  pthread_attr_destroy(&how);
}

int main(void) {
  hd_ctx *ctx = NULL;
  hd_onnx_model model;
  bytes file = chain_of_products("Relu", LAYERS);
  use_little_stack();
  ok(hd_ctx_create(&ctx) == HD_OK, "a context");
  comparisons = 0;
  hd_status status = hd__onnx_parse(&model, ctx, "long.onnx", file.at, file.length);
  ok(status != HD_OK && strstr(hd_ctx_message(ctx), "at least one layer with weights"), "%d products are read", LAYERS);
  diag("%s", hd_ctx_message(ctx));
  ok(comparisons > LAYERS && comparisons < (long)LAYERS * MOST_COMPARISONS, "%ld comparisons, at most %d for each",
     comparisons, MOST_COMPARISONS);
  free(file.at);
  hd_ctx_destroy(ctx);
  read_with_little_stack(chain_of_products("Relu", LAYERS), "products", "at least one layer with weights");
  /* of which the first change the input */
  read_with_little_stack(chain_of_products("Identity", 4000), "products of the input", "at most 1000 layers");
  read_with_little_stack(nest_of_shapes(), "shapes within shapes", "or a size of -1 or 0");
  return done_testing();
}

#else

int main(void) {
  printf("1..0 # SKIP a build without protobuf-c\n");
  return 0;
}

#endif
