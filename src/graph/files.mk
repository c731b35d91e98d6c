core_sources += src/graph/graph.c src/graph/graph.h src/graph/op.c src/graph/op.h src/graph/ops.def \
  src/graph/op_conv2d.c src/graph/op_max_pool2d.c src/graph/op_batch_norm.c src/graph/op_linear.c \
  src/graph/op_pointwise.c src/graph/op_loss.c src/graph/model.c src/graph/model.h src/graph/model_layer.c \
  src/graph/model_layer.h src/graph/model_loss.c
core_sources += src/graph/op_elementwise.c src/graph/op_shard_norm.c src/graph/param_rules.c src/graph/param_rules.h
core_sources += src/graph/op_dropout.c src/graph/op_avg_pool2d.c src/graph/op_concat.c src/graph/op_softmax.c \
  src/graph/op_layer_norm.c
core_sources += src/graph/op_own.c
