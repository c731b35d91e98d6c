# The module heddle-cuda.so: kernels for the GPU, loaded by runs on a GPU. As exact as the CPU's: no contraction,
# IEEE division and square root; denormals are flushed.
NVCC_FLAGS = -std=c++17 -O3 --fmad=false --ftz=true --prec-div=true --prec-sqrt=true -I$(srcdir)/src -I$(srcdir)/include
CUDA_CPPFLAGS = -DHD_CUDA_IMAGE='"cuda_kernels.fatbin"' -DHD_CUDA_ARCHS='"$(CUDA_ARCHS)"' \
  -DHD_CUDA_TOOLKIT=$(CUDA_TOOLKIT)
cuda_kernels = $(srcdir)/src/kernel/cuda/cuda_kernels.cu
EXTRA_DIST += src/kernel/cuda/cuda_kernels.cu src/kernel/cuda/cuda_module.c
if HAVE_NVCC
pkglib_LTLIBRARIES += heddle-cuda.la
heddle_cuda_la_SOURCES = src/kernel/cuda/cuda_module.c
heddle_cuda_la_CPPFLAGS = $(CORE_CPPFLAGS) $(CUDA_CPPFLAGS)
heddle_cuda_la_LDFLAGS = $(module_flags)
heddle_cuda_la_LIBADD =
$(heddle_cuda_la_OBJECTS): cuda_kernels.fatbin

# The headers that the kernels include, as nvcc found them at the last build.
-include cuda_kernels.d
cuda_kernels.fatbin: $(cuda_kernels) cuda_kernels.options
	$(AM_V_GEN)$(NVCC) -fatbin -MMD -MP -MF cuda_kernels.d -Xptxas -v $(NVCC_FLAGS) $(CUDA_GENCODE) -o $@ \
	  $(cuda_kernels) 2>cuda_kernels.resources; code=$$?; \
	grep -Ev '^ptxas info|bytes stack frame' cuda_kernels.resources >&2; exit $$code
# What takes longest, and one CPU alone, begins first: the first of all objects waits for it.
$(firstword $(libheddlecore_la_OBJECTS)): | cuda_kernels.fatbin
# Changes when ./configure sets other options.
cuda_kernels.options: cuda-options
	@echo '$(NVCC) $(NVCC_FLAGS) $(CUDA_GENCODE)' >$@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
CLEANFILES += cuda_kernels.fatbin cuda_kernels.resources cuda_kernels.options cuda_kernels.d

# For tests that read it.
check_DATA = cuda_kernels.ptx
cuda_kernels.ptx: cuda_kernels.fatbin
	$(AM_V_GEN)$(NVCC) -ptx $(NVCC_FLAGS) -arch=compute_$(CUDA_LOWEST) -o $@ $(cuda_kernels)
CLEANFILES += cuda_kernels.ptx
endif
.PHONY: cuda-options
