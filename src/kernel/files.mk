core_sources += src/kernel/kernel.h src/kernel/array.h src/kernel/image.h src/kernel/select.c

# The truth; and what of it is compiled twice, for float and (-DHD_REF_DOUBLE) for double.
core_sources += src/kernel/ref/ref_real.h src/kernel/ref/ref_math.h src/kernel/ref/ref_table.c \
  src/kernel/ref/ref_array.c src/kernel/ref/ref_image.c src/kernel/ref/image_loops.h src/kernel/ref/ref_gemm.c \
  src/kernel/ref/ref_limits.c src/kernel/ref/gelu_constants.h src/kernel/ref/ref_elementwise.h \
  src/kernel/ref/ref_winograd.h src/kernel/ref/ref_softmax.h src/kernel/ref/ref_update.c src/kernel/ref/ref_update.h \
  src/kernel/ref/ref_own.c src/kernel/ref/ref_own.h
kernel_real_sources += src/kernel/ref/ref_batch_norm.c src/kernel/ref/ref_concat.c src/kernel/ref/ref_conv.c \
  src/kernel/ref/ref_dropout.c src/kernel/ref/ref_gelu.c src/kernel/ref/ref_layer_norm.c \
  src/kernel/ref/ref_leaky_relu.c src/kernel/ref/ref_linear.c src/kernel/ref/ref_loss.c src/kernel/ref/ref_pointwise.c \
  src/kernel/ref/ref_pool.c src/kernel/ref/ref_sigmoid.c src/kernel/ref/ref_softmax.c src/kernel/ref/ref_swish.c \
  src/kernel/ref/ref_tanh.c src/kernel/ref/ref_winograd.c

# Compiled once per instruction set, with -DHD_ISA=scalar|avx2|avx512|neon and that set's compiler options; select.c
# learns of each by -DHD_HAVE_ISA_SCALAR, _AVX2, _AVX512, _NEON.
kernel_cpu_sources += src/kernel/cpu/group16.h src/kernel/cpu/group16_scalar.h src/kernel/cpu/group16_avx2.h \
  src/kernel/cpu/group16_avx512.h src/kernel/cpu/group16_neon.h src/kernel/cpu/argmax16.h src/kernel/cpu/softmax16.h \
  src/kernel/cpu/cpu_fill.h src/kernel/cpu/cpu_table.c src/kernel/cpu/cpu_activation.c src/kernel/cpu/cpu_array.c \
  src/kernel/cpu/cpu_batch_norm.c src/kernel/cpu/cpu_concat.c src/kernel/cpu/cpu_conv.h \
  src/kernel/cpu/cpu_conv_depth.c src/kernel/cpu/cpu_conv_dw.c src/kernel/cpu/cpu_conv_dw_pick.c \
  src/kernel/cpu/cpu_conv_dw_wide.c src/kernel/cpu/cpu_conv_dx.c src/kernel/cpu/cpu_conv_forward.c \
  src/kernel/cpu/cpu_conv_frame.c src/kernel/cpu/cpu_conv_live.c src/kernel/cpu/cpu_conv_live.h \
  src/kernel/cpu/cpu_conv_live_dw.c src/kernel/cpu/cpu_conv_pool_dx.c src/kernel/cpu/cpu_conv_walk.c \
  src/kernel/cpu/cpu_dropout.c src/kernel/cpu/cpu_fold.c src/kernel/cpu/cpu_gather.c src/kernel/cpu/cpu_gemm.c \
  src/kernel/cpu/cpu_image.c src/kernel/cpu/cpu_layer_norm.c src/kernel/cpu/cpu_limits.c src/kernel/cpu/cpu_linear.c \
  src/kernel/cpu/cpu_linear_form.c src/kernel/cpu/cpu_loss.c src/kernel/cpu/cpu_loss_terms.c \
  src/kernel/cpu/cpu_pointwise.c src/kernel/cpu/cpu_pool.c src/kernel/cpu/cpu_softmax.c src/kernel/cpu/cpu_update.c \
  src/kernel/cpu/cpu_winograd.c src/kernel/cpu/cpu_winograd.h src/kernel/cpu/cpu_winograd_dw.c

# Products of bfloat16: the tables and the reference in the core; the rest over the avx512 kernels, for CPUs with
# AVX512_BF16.
core_sources += src/kernel/bf16/bf16.h src/kernel/bf16/bf16_table.c src/kernel/ref/ref_bf16.c
kernel_bf16_sources += src/kernel/bf16/bf16_avx512.h src/kernel/bf16/bf16_conv.c src/kernel/bf16/bf16_linear.c

core_sources += src/kernel/native/native.c src/kernel/native/native.h

# The GPU's: headers that nvcc and tests compile, listed with the module that is made of them in src/cuda/files.mk.
core_sources += $(kernel_cuda_headers) src/kernel/cuda/cuda_module.h src/kernel/cuda/cuda_table.c
