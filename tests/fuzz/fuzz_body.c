// fuzz_body.c: any bytes as the body of a message, and of what the store has for one. The first
// byte chooses the type, the second how the body came; the rest is the body.
//
// Whatever it is, in the end nothing is held that was not held before.
#include <actors/actor/message.h>
#include <actors/ref/object.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <runtime/store/reap.h>
#include <shapes.h>

static const troupe_type *const types[] = {
    &troupe_type_everything,    &troupe_type_layer,
    &troupe_type_troupe_text,   &troupe_type_troupe_array_troupe_ref,
    &troupe_type_troupe_ref,    &troupe_type_double,
    &troupe_type_troupe_none,   &troupe_type_troupe_bytes,
    &troupe_type_troupe_tensor, &troupe_type_troupe_array_troupe_tensor,
};

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void begin(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    require(trp_segment_create(8 << 20) == TROUPE_OK);
    trp_segment_process(TRP_PROCESS_DRIVER)->state = TRP_PROCESS_READY;
    trp_self.slot = TRP_PROCESS_DRIVER;
    trp_store_open(TRP_PROCESS_DRIVER);
}

static uint64_t objects(void)
{
    troupe_store_usage now;
    require(trp_store_usage(&now) == TROUPE_OK);
    return now.objects;
}

// An object with these bytes, as a sender would have made it, held by this process.
static trp_object make(const uint8_t *data, size_t size, trp_encoding encoding, uint64_t schema)
{
    trp_object object;
    void *bytes;
    require(trp_store_create(size, schema, encoding, &object, &bytes) == TROUPE_OK);
    if (size > 0)
        memcpy(bytes, data, size);
    require(trp_store_seal(object) == TROUPE_OK);
    return object;
}

// What was accepted has as many elements as it says, aligned, wherever they lie.
static void read_elements(const troupe_tensor *tensor)
{
    size_t size = troupe_tensor_count(tensor) * troupe_dtype_size(tensor->dtype);
    trp_buffer copy = {0};
    require(troupe_tensor_check(tensor, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY) == TROUPE_OK);
    require((uintptr_t)tensor->data % 64 == 0);
    if (size > 0)
        trp_buffer_append(&copy, tensor->data, size);
    require(copy.size == size);
    trp_buffer_free(&copy);
}

// As a call: received, its arguments read, and thrown away.
static void check_message(const trp_frame *frame, const trp_shape *shape)
{
    trp_message *message;
    if (trp_message_receive(TRP_MESSAGE_CALL, frame, shape, &message) != TROUPE_OK)
        return;
    if (message->args == NULL && trp_message_unpack_args(message, shape, NULL) == TROUPE_OK) {
        char line[100];
        require(message->args != NULL);
        if (shape->type == &troupe_type_troupe_tensor)
            read_elements(message->args);
        require(troupe_print_as(shape->type, message->args, line, sizeof line) >= strlen(line));
    }
    trp_message_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PLAIN, STORED, OBJECT, IMAGE, HELD, WAYS, REFUSED = 8, OTHER = 16 };
    if (size < 2)
        return 0;
    begin();
    const troupe_type *type = types[data[0] % (sizeof types / sizeof types[0])];
    trp_shape shape = trp_shape_of(type);
    unsigned way = data[1] % WAYS;
    trp_frame frame = {.kind = TRP_FRAME_CALL, .body = data + 2, .body_size = size - 2};
    trp_buffer named = {0};
    uint64_t before = objects();
    if (way == STORED || way == OBJECT) {
        static const trp_encoding encodings[] = {TRP_ENCODING_BYTES, TRP_ENCODING_PACKED,
                                                 TRP_ENCODING_IMAGE, TRP_ENCODING_TENSOR};
        trp_encoding encoding = encodings[data[1] / 64];
        uint64_t schema = (data[1] & OTHER) != 0 ? 1 : trp_type_note(type);
        trp_write_uint(&named, make(data + 2, size - 2, encoding, schema));
        frame.body = named.data;
        frame.body_size = named.size;
    }
    static const uint32_t flags[] = {0, TRP_FRAME_STORED, TRP_FRAME_OBJECT, TRP_FRAME_IMAGE,
                                     TRP_FRAME_HELD};
    frame.flags = flags[way];
    if ((data[1] & REFUSED) != 0)
        trp_body_refuse(&frame, data[1] / 32);
    else
        check_message(&frame, &shape);
    trp_buffer_free(&named);
    require(objects() == before);
    return 0;
}
