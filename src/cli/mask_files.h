/* Names of the masks that predict --out writes: FOLDER/NAME.png of each picture, below FOLDER as the picture below the
 * folder that was given. No two pictures get one name, and none is written into the folder of its picture. */
#pragma once

#include "cli/cli.h"

typedef struct mask_files mask_files;

/* Makes the folder unless it exists; the caller closes what is opened (NULL allowed). */
int mask_files_open(mask_files **out, hd_ctx *ctx, const char *folder);
void mask_files_close(mask_files *files);

/* The path of a sample's mask, whose folder is made; `inside`: the end of the picture's path that is below the given
 * folder, or its file name. `picture`: its path, NULL for samples of other files. The path is valid until the next
 * call. */
int mask_files_name(const char **path, mask_files *files, hd_ctx *ctx, const char *picture, const char *inside);
