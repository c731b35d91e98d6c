core_sources += src/data/dataset.c src/data/dataset.h src/data/idx.c src/data/idx.h src/data/picture.c \
  src/data/picture.h src/data/digits.c src/data/digits.h src/data/pen.c src/data/pen.h src/data/strokes.c \
  src/data/strokes.h src/data/png.c src/data/png.h src/data/fit.c src/data/fit.h
core_sources += src/data/sampler.c src/data/sampler.h src/data/ring.c src/data/ring.h
