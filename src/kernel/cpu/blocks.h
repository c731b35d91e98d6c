/* The sizes of blocks.def for the instruction set of this compilation, as constants. */
#pragma once

#include "kernel/cpu/cpu_fill.h"

#if HD_ISA_IS(avx512)
#define BLOCK(name, avx512, amx, avx2, neon, scalar) name = avx512,
#elif HD_ISA_IS(amx)
#define BLOCK(name, avx512, amx, avx2, neon, scalar) name = amx,
#elif HD_ISA_IS(avx2)
#define BLOCK(name, avx512, amx, avx2, neon, scalar) name = avx2,
#elif HD_ISA_IS(neon)
#define BLOCK(name, avx512, amx, avx2, neon, scalar) name = neon,
#else
#define BLOCK(name, avx512, amx, avx2, neon, scalar) name = scalar,
#endif

enum {
#include "kernel/cpu/blocks.def"
};

#undef BLOCK
