core_sources += src/plan/plan.c src/plan/plan.h src/plan/fuse.c src/plan/batch.c src/plan/grad.c src/plan/groups.c \
  src/plan/memory.c src/plan/chunks.c src/plan/print.c
