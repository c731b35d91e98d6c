core_sources += src/tensor/eager.h src/tensor/tensor.c src/tensor/tensor_check.c src/tensor/tensor_create.c \
  src/tensor/tensor_device.c src/tensor/tensor_view.c src/tensor/tensor_map.c src/tensor/tensor_reduce.c \
  src/tensor/tensor_matmul.c src/tensor/tensor_print.c src/tensor/strided.c src/tensor/team.c src/tensor/blas.c \
  src/tensor/blas.h
