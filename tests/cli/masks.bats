# A class for each pixel: folders of pictures and masks, arrays, scores, and what is refused.

load cli

# shapes: a folder of pictures and masks in `photos`, the same as arrays in `arrays`.
shapes() {
  "$BUILDDIR/tests/bits/make_data" shape-pictures photos 96 32
  "$BUILDDIR/tests/bits/make_data" shapes arrays 96 32
}

@test "unet-small learns shapes; train, eval, metrics and the page have accuracy and IoU of pixels" {
  shapes
  "$HEDDLE" train --model unet-small --data photos --epochs 6 --lr 0.01 --batch 16 --json --out r >out
  [ "$(json_get test_iou <out | awk '{ print ($1 > 0.9 && $1 <= 1) }')" = 1 ]
  [ "$(json_get test_accuracy <out | awk '{ print ($1 > 0.97 && $1 <= 1) }')" = 1 ]
  "$HEDDLE" eval r --json >eval
  [ "$(json_get iou accuracy loss <eval)" = "$(json_get test_iou test_accuracy test_loss <out)" ]
  [ "$(json_get samples class_iou.3 <eval 2>&1 | head -c 2)" != 96 ]
  # counts are of pixels: 32 pictures of 16x16 but for the first row
  [ "$(json_get confusion <eval | tr -d '[]' | tr ',' '\n' | awk '{ n += $1 } END { print n }')" = $((32 * 16 * 15)) ]
  json_get confusion class_iou iou <eval >numbers
  tr -d '[]' <numbers | tr ', ' '\n\n' | awk '{ v[NR] = $1 }
    END { for (c = 0; c < 3; c++) {
            row = v[3 * c + 1] + v[3 * c + 2] + v[3 * c + 3]; col = v[c + 1] + v[c + 4] + v[c + 7]; hit = v[4 * c + 1]
            iou = hit / (row + col - hit); mean += iou / 3
            if ((iou - v[10 + c]) ^ 2 > 1e-20) exit 1 }
          exit (mean - v[13]) ^ 2 > 1e-20 }'
  "$HEDDLE" eval r | grep -Eq '^IoU +0\.9'
  grep -q '"test_class_iou":\[0\.' r/metrics.jsonl
  "$HEDDLE" report r --output page.html
  grep -q 'Confusion matrix' page.html
}

@test "a folder and arrays are the same data, over ranks, threads, workers and accumulation" {
  shapes
  for layout in "--data photos --threads 1" "--data arrays --threads 3 --accumulate 2" "--data arrays --procs 2" \
    "--data photos --workers 2 --threads 2"; do
    "$HEDDLE" train --model unet-small --max-steps 8 --lr 0.01 --batch 16 --metric iou --out r --json $layout \
      --transforms '[horizontal_flip, {random_crop: {size: 16, padding: 2}}, to_float, normalise]' >out
    rm -rf r
    json_get weights_sha256 test_loss test_iou <out >>all
  done
  [ "$(sort -u all | wc -l)" -eq 1 ]
}

@test "heddle data counts pixels by class; a fifth of one folder becomes the test set" {
  shapes
  "$HEDDLE" data photos --json >out
  [ "$(json_get samples test_samples classes shape <out)" = "96 32 3 [3,16,16]" ]
  [ "$(json_get test_per_class <out | tr -d '[]' | tr ',' '\n' | awk '{ n += $1 } END { print n }')" = $((32 * 240)) ]
  mv photos/train one
  "$HEDDLE" data one --json >out
  [ "$(json_get samples test_samples <out)" = "77 19" ]
  fails 1 data one --sheet x.png
  says "--sheet" "a class for each pixel"
}

@test "the C file of such a network has planes of scores, whose classes are those of heddle eval" {
  shapes
  "$HEDDLE" train --model unet-small --data arrays --max-steps 12 --lr 0.01 --batch 16 --out r >out
  "$HEDDLE" export r --c net.c >out
  grep -q 'in planes (class, row, column)' net.c
  cat >hits.c <<'END'
#include <stdio.h>
#include "net.c"
enum { PLANE = 256, CLASSES = unet_small_outputs / PLANE };
int main(void) { /* how many pixels have the class of their largest score, and how many have one */
  static uint8_t pixel[unet_small_pixels], mask[PLANE];
  static float score[unet_small_outputs], memory[unet_small_memory];
  FILE *y = fdopen(3, "rb");
  long hits = 0, all = 0, best;
  while (fread(pixel, sizeof pixel, 1, stdin) == 1 && fread(mask, sizeof mask, 1, y) == 1) {
    unet_small_scores(score, pixel, memory);
    for (int i = 0; i < PLANE; hits += best == mask[i], all += mask[i] != 255, i++)
      for (int c = best = 0; c < CLASSES; c++)
        best = score[c * PLANE + i] > score[best * PLANE + i] ? c : best;
  }
  printf("%ld %ld\n", hits, all);
}
END
  cc -O1 -ffp-contract=off -w hits.c -o hits -lm
  tail -c $((32 * 768)) arrays/x_test.npy >x
  tail -c $((32 * 256)) arrays/y_test.npy >y
  "$HEDDLE" eval r --json >out
  [ "$(./hits <x 3<y)" = "$(json_get confusion <out | tr -d '[]' | tr ',' '\n' |
    awk '{ all += $1; if (NR % 4 == 1) hits += $1 } END { print hits, all }')" ]
}

@test "what does not belong together is refused by name" {
  shapes
  mkdir -p bad/images bad/masks
  cp photos/train/images/00[0-4].png bad/images
  cp photos/train/masks/00[0-4].png bad/masks
  rm bad/masks/003.png
  fails 1 data bad
  says "bad/images/003.png" "expected its mask bad/masks/003.png"
  cp photos/train/images/003.png bad/masks/003.png
  fails 1 data bad
  says "bad/masks/003.png" "expected the number of a class in each pixel" "found colours"
  cp photos/train/masks/003.png bad/masks
  cp photos/train/masks/003.png bad/masks/009.png
  fails 1 data bad
  says "bad/masks/009.png" "expected a picture of this name"
  rm bad/masks/009.png
  "$HEDDLE" data bad >out
  "$BUILDDIR/tests/bits/make_data" pictures large 10 10
  cp large/train/c0/000.png bad/images/004.png
  fails 1 data bad
  says "expected pictures of one size" "000.png of 16x16 and 004.png of 32x32"
}

@test "a model, a loss, options that expect one label are refused" {
  shapes
  fails 1 train --model mlp --data photos --max-steps 1
  says "expected scores for each of the 16x16 pixels" "found one prediction for each sample" "unet-small"
  fails 1 train --model unet-small --data "$FEW" --max-steps 1
  says "expected one score per class"
  sed 's/out: classes/out: 2/' "$SRCDIR/data/models/unet-small.yaml" >two.yaml
  fails 1 train --model two.yaml --data photos --max-steps 1
  says "expected at least 3 scores" "ignore_index: 2"
  fails 2 train --model unet-small --data photos --max-steps 1 --sampler balanced
  says "--sampler balanced" "a class of each pixel"
  fails 2 train --model unet-small --data photos --max-steps 1 --metric auc
  says "--metric auc"
  fails 2 train --model mlp --data "$FEW" --max-steps 1 --metric iou
  says "--metric iou expects a model that predicts a class for each pixel"
  fails 2 train --model unet-small --data photos --max-steps 1 --transforms '[to_float, one_hot]'
  says "found one_hot"
  fails 1 train --model unet-small --data photos --max-steps 1 --tta mirror --out t
  says "--tta mirror expects one label for each sample"
  "$HEDDLE" train --model unet-small --data photos --max-steps 1 --out r >out
  fails 1 predict r photos/test/images/000.png
  says "a class for each pixel"
}
