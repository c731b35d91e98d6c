core_sources += src/data/dataset.c src/data/dataset.h src/data/idx.c src/data/idx.h src/data/picture.c src/data/picture.h
