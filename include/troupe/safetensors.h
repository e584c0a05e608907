// safetensors.h: files of named tensors in the format of safetensors, which Python and other
// programs write and read: weights made elsewhere come in, and go out, without another library.
//
//     troupe_safetensors *file;
//     troupe_tensor weights;
//     TROUPE_TRY(troupe_safetensors_open("model.safetensors", &file));
//     TROUPE_TRY(troupe_safetensors_view(file, "layers.0.weight", &weights));
//     TROUPE_TRY(troupe_tensor_check(&weights, TROUPE_FLOAT32, 2));
//     ...                                                  // borrowed from the file until
//     troupe_safetensors_close(&file);
//
// What troupe_save makes is such a file too.
#ifndef TROUPE_SAFETENSORS_H
#define TROUPE_SAFETENSORS_H

#include <troupe/tensor.h>

TROUPE_BEGIN_C

typedef struct troupe_safetensors troupe_safetensors;

// Opens the file and checks all of its header; the caller owns *file. The bytes of its tensors are
// mapped, and read when they are used: a file that is cut while it is open ends the program with
// SIGBUS, so replace files by a rename. All but the close may be called by several threads at a
// time. The texts of TROUPE_NOT_FOUND, TROUPE_CORRUPT (no whole and well-formed safetensors file),
// TROUPE_IO and TROUPE_NO_MEMORY name the file and the fault.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_safetensors_open(const char *path, troupe_safetensors **file);
// Ends all that was borrowed from the file, and clears *file. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_safetensors_close(troupe_safetensors **file);

// How many tensors it has, and their names, sorted by their bytes; NULL: there is none of that
// index. A name lives until the close.
TROUPE_EXPERIMENTAL size_t troupe_safetensors_count(const troupe_safetensors *file);
TROUPE_EXPERIMENTAL const char *troupe_safetensors_name(const troupe_safetensors *file,
                                                        size_t index);

// Lends a tensor by its name: its elements are read-only, aligned to their own size, and live until
// the close. TROUPE_NOT_FOUND: there is none of that name; TROUPE_UNSUPPORTED: its elements are of
// a type that a troupe_tensor has not (F8_E4M3, ...), or it has more than TROUPE_DIMS_MAX
// dimensions.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_safetensors_view(const troupe_safetensors *file, const char *name, troupe_tensor *tensor);

// A text of the file's metadata by its name, until the close; NULL: there is none.
TROUPE_EXPERIMENTAL const char *troupe_safetensors_text(const troupe_safetensors *file,
                                                        const char *name);

typedef struct troupe_named_tensor {
    const char *name;
    troupe_tensor tensor;
} troupe_named_tensor;

typedef struct troupe_named_text {
    const char *name, *text;
} troupe_named_text;

// Makes or replaces a file with the tensors and, as its metadata, the texts; each may be none (NULL
// and 0). It is synced and put in place by a rename, so that a crash leaves the old or the new one
// whole; `path` and ".new" is used meanwhile. TROUPE_INVALID: a name that is there twice, is not
// UTF-8 or is "__metadata__", or a tensor that is none; TROUPE_IO and TROUPE_NO_SPACE name the
// file.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_safetensors_write(const char *path, const troupe_named_tensor *tensors, size_t count,
                         const troupe_named_text *texts, size_t text_count);

TROUPE_END_C

#endif
