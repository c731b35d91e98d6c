core_sources += src/cuda/driver.c src/cuda/driver.h src/cuda/cuda.c src/cuda/cuda.h src/cuda/cuda_memory.c src/cuda/devices.c src/cuda/shared.c src/cuda/shared.h \
  src/cuda/libraries.c src/cuda/libraries.h src/cuda/native.c src/cuda/native.h

# The module: kernels for the GPU, which the command loads when it is asked for one. As exact as the others: no contraction,
# IEEE division and square root; denormals are flushed, as lanes of the CPU do.
NVCC_FLAGS = -std=c++17 -O3 --fmad=false --ftz=true --prec-div=true --prec-sqrt=true
CUDA_CPPFLAGS = -DHD_CUDA_IMAGE='"cuda_kernels.fatbin"' -DHD_CUDA_ARCHS='"$(CUDA_ARCHS)"' -DHD_CUDA_TOOLKIT=$(CUDA_TOOLKIT)
kernel_cuda_headers = src/base/both.h src/base/fold.h src/base/philox.h src/kernel/kernel.h src/kernel/ref/ref_math.h \
  src/graph/ops.def src/kernel/cuda/cuda_block.h src/kernel/cuda/cuda_call.h src/kernel/cuda/cuda_channels.h src/kernel/cuda/cuda_channels_matrix.h \
  src/kernel/cuda/cuda_clip.h src/kernel/cuda/cuda_close.h src/kernel/cuda/cuda_conv.h \
  src/kernel/cuda/cuda_cover.h src/kernel/cuda/cuda_conv_live.h src/kernel/cuda/cuda_conv_scatter.h src/kernel/cuda/cuda_conv_tiles.h src/kernel/cuda/cuda_kernels.h \
  src/kernel/cuda/cuda_linear.h src/kernel/cuda/cuda_linear_tiles.h src/kernel/cuda/cuda_product.h \
  src/kernel/cuda/cuda_sixteen.h src/kernel/cuda/cuda_loss.h src/kernel/cuda/cuda_names.h src/kernel/cuda/cuda_native.h \
  src/kernel/cuda/cuda_norm.h \
  src/kernel/cuda/cuda_params.h src/kernel/cuda/cuda_pointwise.h src/kernel/cuda/cuda_pool.h src/kernel/cuda/cuda_ranks.h \
  src/kernel/cuda/cuda_rows.h src/kernel/cuda/cuda_rows_loss.h src/kernel/cuda/cuda_rows_matrix.h src/kernel/cuda/cuda_rows_norm.h
EXTRA_DIST += src/kernel/cuda/cuda_kernels.cu src/kernel/cuda/cuda_module.c
if HAVE_NVCC
pkglib_LTLIBRARIES += heddle-cuda.la
heddle_cuda_la_SOURCES = src/kernel/cuda/cuda_module.c
heddle_cuda_la_CPPFLAGS = $(CORE_CPPFLAGS) $(CUDA_CPPFLAGS)
heddle_cuda_la_LDFLAGS = -module -avoid-version -shared
heddle_cuda_la_LIBADD =
$(heddle_cuda_la_OBJECTS): cuda_kernels.fatbin
cuda_kernels.fatbin: src/kernel/cuda/cuda_kernels.cu $(kernel_cuda_headers) cuda_kernels.asked
	$(AM_V_GEN)$(NVCC) -fatbin -Xptxas -v $(NVCC_FLAGS) $(CUDA_GENCODE) -I$(srcdir)/src -I$(srcdir)/include -o $@ \
	  $(srcdir)/src/kernel/cuda/cuda_kernels.cu 2>cuda_kernels.resources; code=$$?; \
	grep -Ev '^ptxas info|bytes stack frame' cuda_kernels.resources >&2; exit $$code
# Changes when a ./configure asks for other code.
cuda_kernels.asked: cuda-asked
	@echo '$(NVCC) $(NVCC_FLAGS) $(CUDA_GENCODE)' >$@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
CLEANFILES += cuda_kernels.fatbin cuda_kernels.resources cuda_kernels.asked

# For tests that read it.
check_DATA = cuda_kernels.ptx
cuda_kernels.ptx: src/kernel/cuda/cuda_kernels.cu $(kernel_cuda_headers)
	$(AM_V_GEN)$(NVCC) -ptx $(NVCC_FLAGS) -arch=compute_$(CUDA_LOWEST) -I$(srcdir)/src -I$(srcdir)/include -o $@ $(srcdir)/src/kernel/cuda/cuda_kernels.cu
CLEANFILES += cuda_kernels.ptx
endif
.PHONY: cuda-asked
