# A class for each pixel: folders of pictures and masks, arrays, scores, and what is refused.

load cli

LEVEL=-O0 # takes a compiler half the time
[ "${HD_DEPTH:-1}" -lt 2 ] || LEVEL=-O1

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
  [ "$(json_get samples <eval)" = 32 ]
  [ "$(json_get class_iou <eval | tr ',' '\n' | wc -l)" -eq 3 ]
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
  grep -q '<th>pixels</th>.*<th>IoU</th>' page.html
  grep -q '<h1[^>]*>9[0-9.]* % test IoU' page.html
  grep -q "test loss $(json_get test_loss <out | awk '{ printf "%.6g", $1 }')" page.html
  # the IoU of class 1 is that of eval
  awk '{ printf "%.2f %%\n", 100 * $1 }' <<<"$(json_get class_iou <eval | tr -d '[]' | cut -d, -f2)" >iou
  grep -A 1 '<td[^>]*>1</td>' page.html | grep -qF "<td>$(cat iou)</td>"
}

# A PNG's width, height, depth and colour type, as four numbers.
png_head() { od -An -tu1 -j16 -N10 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8, $9, $10 }'; }

@test "predict writes masks: of files, folders, items and arrays, as eval counts them" {
  shapes
  "$HEDDLE" train --model unet-small --data photos --epochs 4 --lr 0.01 --batch 16 --out r >log
  "$HEDDLE" predict r photos/test/images --out masks --csv shares.csv --json >out
  [ "$(ls masks | wc -l)" -eq 32 ]
  [ "$(png_head masks/000.png)" = "16 16 8 0" ]
  [ "$(wc -l <shares.csv)" -eq 33 ]
  [ "$(head -n 1 shares.csv)" = "file,0,1,2" ]
  awk -F, 'NR > 1 && ($2 + $3 + $4 - 1) ^ 2 > 1e-9 { exit 1 }' shares.csv
  [ "$(json_get predictions.0.mask <out)" = "masks/000.png" ]
  # the masks as labels: all pixels of them are guessed right
  mkdir -p guessed/train guessed/test
  cp -r photos/train/* guessed/train
  cp -r photos/test/images masks guessed/test
  "$HEDDLE" eval r --data guessed --json >eval
  [ "$(json_get accuracy <eval)" = 1 ]
  "$HEDDLE" predict r photos/test/images/000.png --out one >out
  cmp one/000.png masks/000.png
  grep -Eq '000.png +[0-9.]+ % [0-2], ' out
  "$HEDDLE" predict r --index 0 --out items >out
  cmp items/photos-0.png masks/000.png
  "$HEDDLE" predict r arrays/x_test.npy --out rows --json >out
  cmp rows/x_test-0.png masks/000.png
  [ "$(ls rows | wc -l)" -eq 32 ]
}

@test "masks have the picture's size, the palette and the names of the training set's" {
  shapes
  "$BUILDDIR/tests/bits/make_data" shape-sizes sizes 48 16
  fails 1 train --model unet-small --data sizes --max-steps 1
  says "expected samples of one size" "sizes/train/images/000.png: 16x16 and " "001.png: 22x20" "resize: [64, 64]"
  printf '\357\273\277ground\n\ndisc\nbar\n\n' >sizes/classes.txt
  fails 1 data sizes
  says "sizes/classes.txt" "a name in each line" "in front of 'disc':"
  printf '\357\273\277ground\r\ndisc\r\nbar\r\n\r\n' >sizes/classes.txt
  "$HEDDLE" train --model unet-small --data sizes --epochs 6 --lr 0.01 --batch 16 --out r --json \
    --transforms '[horizontal_flip, {resize: [16, 16]}, to_float, normalise]' >out
  [ "$(json_get test_iou <out | awk '{ print ($1 > 0.5) }')" = 1 ]
  "$HEDDLE" eval r | grep -Eq '^ +2 bar +[0-9.]+ %$'
  "$HEDDLE" report r --output page.html
  grep -q '<td[^>]*>1 disc</td>' page.html
  "$HEDDLE" predict r sizes/test/images --out masks --csv shares.csv >out
  [ "$(head -n 1 shares.csv)" = "file,ground,disc,bar" ]
  for name in 000 001 002; do
    [ "$(png_head masks/$name.png)" = "$(png_head sizes/test/masks/$name.png)" ]
    [ "$(png_head masks/$name.png | cut -d ' ' -f 3,4)" = "8 3" ] # a palette
  done
  "$HEDDLE" data sizes --json >out
  [ "$(json_get samples test_samples classes <out)" = "48 16 3" ]
  mv sizes/test sizes-test
  "$HEDDLE" data sizes --json >out
  [ "$(json_get samples test_samples <out)" = "38 10" ]
}

@test "classes are matched by name; other names and classes without a name are refused" {
  shapes
  printf 'ground\ndisc\nbar\n' >photos/classes.txt
  "$HEDDLE" train --model unet-small --data photos --epochs 4 --lr 0.01 --batch 16 --out r >log
  "$HEDDLE" eval r --json | json_get accuracy iou class_iou >own
  "$BUILDDIR/tests/bits/make_data" shape-turned others 96 32 # the classes the other way round
  printf 'bar\ndisc\nground\n' >others/classes.txt
  "$HEDDLE" eval r --data others --json | json_get accuracy iou class_iou >other
  cmp own other
  printf 'bar\ndisc\nsky\n' >others/classes.txt
  fails 1 eval r --data others
  says "found pixels of 'sky'"
  printf 'bar\ndisc\n' >others/classes.txt
  fails 1 eval r --data others
  says "others/classes.txt" "at least 3 classes" "found 2"
  printf 'bar\ndisc\nbar\n' >others/classes.txt
  fails 1 eval r --data others
  says "others/classes.txt" "a name of its own"
}

@test "masks are not written over pictures, nor over each other, nor of other networks" {
  shapes
  "$HEDDLE" train --model unet-small --data photos --max-steps 1 --out r >log
  fails 2 predict r photos/test/images --top 2
  says "--top expects" "a class for each pixel"
  fails 1 predict r photos/test/images/000.png --out photos/test/images
  says "--out expects another folder"
  mkdir -p two/a two/b
  cp photos/test/images/000.png two/a
  cp photos/test/images/001.png two/b/000.png
  "$HEDDLE" predict r two --out both >out
  [ -s both/a/000.png ]
  [ -s both/b/000.png ]
  fails 1 predict r two/a/000.png two/b/000.png --out one
  says "is that of another sample of this name"
  "$HEDDLE" train --model mlp --data "$FEW" --max-steps 1 --out m >log
  fails 2 predict m --index 0 --out masks
  says "--out expects a network that predicts a class for each pixel"
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
  cc $LEVEL -ffp-contract=off -w hits.c -o hits -lm
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
  says "bad/masks/004.png: expected a mask of 32x32 as its picture, found 16x16"
  cp photos/train/images/004.png bad/images
  cp photos/train/images/003.png bad/images/003.k.png
  cp photos/train/masks/003.png bad/masks/003.k.png
  cp photos/train/images/003.png bad/images/003.jpg
  fails 1 data bad
  says "expected a mask for each picture, found 6 for 7"
  fails 1 bench loader --data photos
  says "photos: expected samples with one target each, found a class for each pixel"
}

@test "numbers of masks are those of one palette; masks in black and white are named" {
  "$BUILDDIR/tests/bits/make_data" shape-palettes photos 4 2
  fails 1 data photos
  says "photos/train/masks/00" "expected the colour #" "as the first mask of training has it" \
    "save all masks with one palette"
  cp -R photos turned
  rm photos/*/*/00[13].png turned/*/*/00[02].png
  "$HEDDLE" data photos
  # nor are masks of another palette evaluated by the numbers of the run; a first layer that whitens takes masks
  printf '%s\n' 'model: filters' 'input: [3, 16, 16]' 'layers:' \
    '  - conv: {op: conv2d, out: 8, kernel: 3, padding: 1, init: whiten}' \
    '  - top: {op: conv2d, out: classes, kernel: 1}' >filters.yaml
  "$HEDDLE" train --model filters.yaml --data photos --max-steps 2 --batch 2 --out r >out
  "$HEDDLE" eval r --data photos >out
  fails 1 eval r --data turned
  says "turned/train/masks/001.png: expected the colour #" "as the first mask of training has it"
  "$BUILDDIR/tests/bits/make_data" shape-white white 4 2
  "$HEDDLE" data white >out 2>&1
  grep -q 'no pixel of the training masks has a class other than 0: .*255 is no class, write 1 if' out
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
}
