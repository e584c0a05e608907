// request.c: requests, and how several become one batch.
#include <serve/service.h>

#include <models/model.h>
#include <runtime/base/memory.h>
#include <runtime/codec/tensor.h>
#include <string.h>

troupe_status trp_inference_check(const troupe_model *model, trp_inference *request)
{
    const troupe_tensor *x = &request->x;
    TROUPE_TRY(trp_model_check_input(model, x));
    // Of elements: rows of none could be without number.
    if (x->ndim == 0 || troupe_tensor_count(x) == 0) {
        char text[TRP_TENSOR_TEXT];
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the input of model '%s' is %s where at least one row of elements was "
                           "expected",
                           model->name, trp_tensor_text(x, text));
    }
    TROUPE_TRY(trp_tensor_good(x, &request->bytes));
    request->rows = x->shape[0];
    return TROUPE_OK;
}

trp_inference *trp_inference_make(const troupe_tensor *x)
{
    trp_inference *made = (trp_inference *)trp_alloc(sizeof *made);
    size_t size = troupe_tensor_count(x) * troupe_dtype_size(x->dtype);
    void *memory = trp_alloc(size + 1);
    if (!made || !memory) {
        trp_free(made);
        trp_free(memory);
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a request of %zu bytes", size);
        return NULL;
    }
    if (size > 0)
        memcpy(memory, x->data, size);
    made->x = *x;
    made->x.data = made->memory = memory;
    return made;
}

void trp_inference_free(trp_inference *request)
{
    trp_free(request->memory);
    trp_free(request);
}

void trp_inference_answer(trp_inference *request, const troupe_tensor *y)
{
    if (request->done) {
        request->done(request, TROUPE_OK, NULL, y);
        return;
    }
    (void)troupe_deferred_fulfil(troupe_tensor, &request->later, y);
    trp_inference_free(request);
}

void trp_inference_refuse(trp_inference *request, troupe_status status, const char *text)
{
    if (request->done) {
        request->done(request, status, text, NULL);
        return;
    }
    (void)troupe_deferred_refuse(&request->later, status, "%s", text);
    trp_inference_free(request);
}

// ---- lists

void trp_inferences_begin(trp_inferences *list)
{
    *list = (trp_inferences){.last = &list->first};
}

void trp_inferences_push(trp_inferences *list, trp_inference *request)
{
    request->next = NULL;
    *list->last = request;
    list->last = &request->next;
    list->count++;
}

void trp_inferences_push_front(trp_inferences *list, trp_inference *request)
{
    request->next = list->first;
    if (!list->first)
        list->last = &request->next;
    list->first = request;
    list->count++;
}

trp_inference *trp_inferences_pop(trp_inferences *list)
{
    trp_inference *first = list->first;
    if (!first)
        return NULL;
    list->first = first->next;
    if (!list->first)
        list->last = &list->first;
    list->count--;
    return first;
}

// ---- batches

static bool rows_are_alike(const troupe_tensor *a, const troupe_tensor *b)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim)
        return false;
    for (uint32_t i = 1; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

size_t trp_inferences_take_batch(trp_inferences *from, size_t rows_max, trp_inferences *batch)
{
    size_t rows = 0;
    trp_inferences_begin(batch);
    for (trp_inference *it; (it = from->first) != NULL;) {
        const trp_inference *first = batch->first;
        if (first && (first->alone || it->alone || it->rows > rows_max - rows ||
                      !rows_are_alike(&first->x, &it->x)))
            break;
        rows += it->rows;
        trp_inferences_push(batch, trp_inferences_pop(from));
        if (rows >= rows_max)
            break;
    }
    return rows;
}

troupe_status trp_inferences_join(const trp_inferences *batch, size_t rows, troupe_tensor *x,
                                  void **memory)
{
    size_t size = 0, at = 0;
    *x = batch->first->x;
    *memory = NULL;
    if (batch->count == 1)
        return TROUPE_OK;
    x->shape[0] = rows;
    for (const trp_inference *it = batch->first; it; it = it->next)
        size += it->bytes;
    char *all = (char *)trp_alloc(size + 1);
    if (!all)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a batch of %zu bytes", size);
    for (const trp_inference *it = batch->first; it; at += it->bytes, it = it->next)
        if (it->bytes > 0)
            memcpy(all + at, it->x.data, it->bytes);
    x->data = *memory = all;
    return TROUPE_OK;
}

troupe_tensor trp_inference_part(const trp_inference *request, const troupe_tensor *y, size_t row)
{
    troupe_tensor part = *y;
    size_t of_row = troupe_tensor_stride(y, 0) * troupe_dtype_size(y->dtype);
    part.shape[0] = request->rows;
    if (y->data)
        part.data = (const char *)y->data + row * of_row;
    return part;
}
