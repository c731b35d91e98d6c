core_sources += src/data/dataset.c src/data/dataset.h src/data/idx.c src/data/idx.h src/data/picture.c \
  src/data/picture.h src/data/canvas.c src/data/canvas.h src/data/contact.c src/data/contact.h src/data/digits.c \
  src/data/digits.h src/data/pen.c src/data/pen.h src/data/strokes.c src/data/strokes.h src/data/png.c src/data/png.h \
  src/data/fit.c src/data/fit.h
core_sources += src/data/sampler.c src/data/sampler.h src/data/ring.c src/data/ring.h
core_sources += src/data/transform.c src/data/transform.h src/data/transform_step.h src/data/transform_list.c \
  src/data/transform_box.c src/data/transform_move.c src/data/transform_resize.c src/data/transform_target.c \
  src/data/transform_value.c src/data/transform_warp.c
# Formats of data sets, and what they share.
core_sources += src/data/format.h src/data/survey.c src/data/survey.h src/data/resident.c src/data/resident.h \
  src/data/named.c src/data/named.h src/data/names.c src/data/names.h src/data/drawn.c src/data/idx_folder.c \
  src/data/cifar.c src/data/npy.c src/data/npy.h src/data/arrays.c src/data/arrays.h src/data/npy_folder.c \
  src/data/npz.c src/data/csv.c src/data/own_data.c src/data/image_folder.c src/data/photo.c src/data/photo.h \
  src/data/jpeg.c src/data/jpeg.h src/data/walk.c src/data/walk.h src/data/skip.c src/data/skip.h src/data/cache.c \
  src/data/cache.h
