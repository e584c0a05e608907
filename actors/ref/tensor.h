// tensor.h: tensors as objects of the store, for object.c.
#ifndef TRP_REF_TENSOR_H
#define TRP_REF_TENSOR_H

#include <runtime/base/arena.h>
#include <runtime/store/store.h>
#include <troupe/tensor.h>

// Makes a sealed object of a tensor, held by this process.
troupe_status trp_tensor_put(const troupe_tensor *tensor, trp_object *object);
// Reads an object with TRP_ENCODING_TENSOR as a value of `type`. The elements are copied to the
// arena; NULL: they stay in the object, which must be held as long as the value is used.
troupe_status trp_tensor_read(const trp_object_info *info, const troupe_type *type,
                              trp_arena *arena, void *value);

#endif
