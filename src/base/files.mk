core_sources += src/base/status.c src/base/status.h src/base/alloc.c src/base/alloc.h src/base/fold.h src/base/shape.c \
  src/base/shape.h src/base/embed.h
core_sources += src/base/philox.c src/base/philox.h src/base/both.h
core_sources += src/base/number.c src/base/number.h src/base/yaml_bind.c src/base/yaml_bind.h
core_sources += src/base/digest.c src/base/digest.h src/base/safetensors.c src/base/safetensors.h
core_sources += src/base/hdmath.c src/base/hdmath.h
core_sources += src/base/utf8.c src/base/utf8.h src/base/line.c src/base/line.h
core_sources += src/base/version.c src/base/version.h
