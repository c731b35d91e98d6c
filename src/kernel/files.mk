core_sources += src/kernel/kernel.h src/kernel/ref/ref_real.h src/kernel/ref/ref_math.h src/kernel/ref/ref_conv.c \
  src/kernel/ref/ref_pool.c src/kernel/ref/ref_linear.c src/kernel/ref/ref_pointwise.c src/kernel/ref/ref_loss.c \
  src/kernel/ref/ref_update.c src/kernel/ref/ref_update.h src/kernel/ref/ref_table.c src/kernel/ref/ref64_conv.c \
  src/kernel/ref/ref64_pool.c src/kernel/ref/ref64_linear.c src/kernel/ref/ref64_pointwise.c src/kernel/ref/ref64_loss.c
