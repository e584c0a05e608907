// msgpack.c: single items of MessagePack. Writing goes through msgpack-c's packer; reading is our
// own pull parser, since msgpack-c's reserves memory by what a message claims to hold.
//
// The reader advances only over items that are complete within its bytes; nothing here allocates
// but the buffer that is written to.
#include <endian.h>
#include <msgpack.h>
#include <runtime/codec/msgpack.h>
#include <string.h>

// ---- writing

// Inlined into the packer's code, where sizes are constants, a number costs a few stores.
static inline int append(void *data, const char *bytes, size_t size)
{
    trp_buffer *out = (trp_buffer *)data;
    if (size > out->capacity - out->size || out->failed) {
        trp_buffer_append(out, bytes, size);
        return out->failed ? -1 : 0;
    }
    memcpy(out->data + out->size, bytes, size);
    out->size += size;
    return 0;
}

// The packer's return values are not looked at: the buffer's `failed` says the same.
static msgpack_packer packer_of(trp_buffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, append);
    return packer;
}

void trp_write_nil(trp_buffer *out)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_nil(&packer);
}

void trp_write_bool(trp_buffer *out, bool value)
{
    msgpack_packer packer = packer_of(out);
    (void)(value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer));
}

__attribute__((flatten)) void trp_write_int(trp_buffer *out, int64_t value)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_int64(&packer, value);
}

__attribute__((flatten)) void trp_write_uint(trp_buffer *out, uint64_t value)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_uint64(&packer, value);
}

void trp_write_float(trp_buffer *out, float value)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_float(&packer, value);
}

void trp_write_double(trp_buffer *out, double value)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_double(&packer, value);
}

static void write_sized(trp_buffer *out, const char *text, size_t size)
{
    msgpack_packer packer = packer_of(out);
    if (size > UINT32_MAX) {
        out->failed = true; // The format's own limit.
        return;
    }
    (void)msgpack_pack_str(&packer, size);
    (void)msgpack_pack_str_body(&packer, text, size);
}

void trp_write_text(trp_buffer *out, const char *text)
{
    if (text == NULL)
        trp_write_nil(out);
    else
        write_sized(out, text, strlen(text));
}

void trp_write_line(trp_buffer *out, const char *text)
{
    if (text == NULL)
        trp_write_nil(out);
    else
        write_sized(out, text, trp_text_good(text, strlen(text)));
}

void trp_write_bytes(trp_buffer *out, const void *data, size_t size)
{
    if (size > UINT32_MAX) {
        out->failed = true;
        return;
    }
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_bin(&packer, size);
    if (size)
        (void)msgpack_pack_bin_body(&packer, data, size);
}

void trp_write_array(trp_buffer *out, uint32_t count)
{
    msgpack_packer packer = packer_of(out);
    (void)msgpack_pack_array(&packer, count);
}

// ---- reading

typedef enum item_kind {
    ITEM_NIL,
    ITEM_BOOL,
    ITEM_UINT, // Not negative, whichever sign its format has.
    ITEM_INT,  // Negative.
    ITEM_FLOAT,
    ITEM_DOUBLE,
    ITEM_TEXT,
    ITEM_BYTES,
    ITEM_ARRAY,
    ITEM_MAP,
    ITEM_EXTENSION,
} item_kind;

static const char *const item_names[] = {"nil",      "a bool",   "an integer",  "an integer",
                                         "a float",  "a double", "text",        "bytes",
                                         "an array", "a map",    "an extension"};

// One item's head, and for texts, bytes and extensions its payload. The items of arrays and maps
// follow.
typedef struct item {
    item_kind kind;
    uint64_t number; // The value's bits; of a payload its size; of a container its count.
    const unsigned char *payload, *next;
} item;

static size_t place(const trp_reader *in, const unsigned char *at)
{
    return (size_t)(at - in->start);
}

static inline uint64_t big_endian(const unsigned char *at, size_t width)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (width) {
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, sizeof(two));
        return be16toh(two);
    case 4:
        memcpy(&four, at, sizeof(four));
        return be32toh(four);
    default:
        memcpy(&eight, at, sizeof(eight));
        return be64toh(eight);
    }
}

static int64_t sign_extend(uint64_t number, size_t width)
{
    unsigned shift = 64 - 8 * (unsigned)width;
    // The conversion wraps and the shift is arithmetic: gcc and clang both define them so.
    return (int64_t)(number << shift) >> shift;
}

// What the bytes 0xc0 to 0xdf mean: the kind and how many bytes of number follow.
static const struct {
    unsigned char kind, width;
} heads[32] = {
    {ITEM_NIL, 0},       {ITEM_NIL, 0},       {ITEM_BOOL, 0},      {ITEM_BOOL, 0},
    {ITEM_BYTES, 1},     {ITEM_BYTES, 2},     {ITEM_BYTES, 4},     {ITEM_EXTENSION, 1},
    {ITEM_EXTENSION, 2}, {ITEM_EXTENSION, 4}, {ITEM_FLOAT, 4},     {ITEM_DOUBLE, 8},
    {ITEM_UINT, 1},      {ITEM_UINT, 2},      {ITEM_UINT, 4},      {ITEM_UINT, 8},
    {ITEM_INT, 1},       {ITEM_INT, 2},       {ITEM_INT, 4},       {ITEM_INT, 8},
    {ITEM_EXTENSION, 0}, {ITEM_EXTENSION, 0}, {ITEM_EXTENSION, 0}, {ITEM_EXTENSION, 0},
    {ITEM_EXTENSION, 0}, {ITEM_TEXT, 1},      {ITEM_TEXT, 2},      {ITEM_TEXT, 4},
    {ITEM_ARRAY, 2},     {ITEM_ARRAY, 4},     {ITEM_MAP, 2},       {ITEM_MAP, 4},
};

// The item at the reader's place, with everything checked that does not depend on what is wanted.
static troupe_status look(const trp_reader *in, const char *wanted, item *found)
{
    const unsigned char *at = in->at;
    if (at == in->end)
        return troupe_fail(TROUPE_MALFORMED, "expected %s, found the end at byte %zu", wanted,
                           place(in, at));
    unsigned head = *at++;
    size_t width = 0;
    item it = {.kind = ITEM_UINT, .number = head};
    if (head >= 0xe0) {
        it.kind = ITEM_INT;
        it.number = (uint64_t)sign_extend(head, 1);
    } else if (head >= 0xc0) {
        if (head == 0xc1)
            return troupe_fail(TROUPE_MALFORMED,
                               "expected %s, found 0xc1, which is not an item, at byte %zu", wanted,
                               place(in, in->at));
        it.kind = (item_kind)heads[head - 0xc0].kind;
        width = heads[head - 0xc0].width;
        it.number = head == 0xc3;
    } else if (head >= 0xa0) {
        it.kind = ITEM_TEXT;
        it.number = head & 0x1f;
    } else if (head >= 0x80) {
        it.kind = head >= 0x90 ? ITEM_ARRAY : ITEM_MAP;
        it.number = head & 0x0f;
    }
    size_t left = (size_t)(in->end - at);
    if (width > left)
        return troupe_fail(TROUPE_MALFORMED, "expected %s, found the end inside %s at byte %zu",
                           wanted, item_names[it.kind], place(in, in->at));
    if (width > 0)
        it.number = big_endian(at, width);
    at += width;
    left -= width;

    uint64_t needed = 0;
    switch (it.kind) {
    case ITEM_INT:
        if (width > 0)
            it.number = (uint64_t)sign_extend(it.number, width);
        if (!(it.number >> 63))
            it.kind = ITEM_UINT;
        break;
    case ITEM_EXTENSION: // Its type's byte, then the payload; without a size: 1, 2, 4, 8 or 16
                         // bytes.
        needed = 1 + (width > 0 ? it.number : (uint64_t)1 << (head - 0xd4));
        break;
    case ITEM_TEXT:
    case ITEM_BYTES:
    case ITEM_ARRAY: // Every item takes a byte at least.
        needed = it.number;
        break;
    case ITEM_MAP:
        needed = 2 * it.number;
        break;
    default:
        break;
    }
    if (needed > left)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected %s, found %s at byte %zu that claims %llu more bytes than "
                           "the %zu that are left",
                           wanted, item_names[it.kind], place(in, in->at),
                           (unsigned long long)(needed - left), left);
    it.payload = at;
    it.next = it.kind == ITEM_ARRAY || it.kind == ITEM_MAP ? at : at + needed;
    *found = it;
    return TROUPE_OK;
}

static troupe_status mismatch(const trp_reader *in, const char *wanted, const item *it)
{
    return troupe_fail(TROUPE_MALFORMED, "expected %s, found %s at byte %zu", wanted,
                       item_names[it->kind], place(in, in->at));
}

troupe_status trp_read_bool(trp_reader *in, bool *value)
{
    item it;
    TROUPE_TRY(look(in, "a bool", &it));
    if (it.kind != ITEM_BOOL)
        return mismatch(in, "a bool", &it);
    *value = it.number != 0;
    in->at = it.next;
    return TROUPE_OK;
}

// The unsigned forms, which headers of frames are made of, without the general way. The reader
// stays where it is if the number does not fit `max`.
static inline bool quick_uint(trp_reader *in, uint64_t max, uint64_t *value)
{
    if (in->at == in->end)
        return false;
    unsigned head = *in->at;
    size_t width = head < 0x80 ? 0 : (size_t)1 << (head & 3);
    if (head >= 0x80 && (head < 0xcc || head > 0xcf || width > (size_t)(in->end - in->at) - 1))
        return false;
    uint64_t number = width == 0 ? head : big_endian(in->at + 1, width);
    if (number > max)
        return false;
    *value = number;
    in->at += 1 + width;
    return true;
}

troupe_status trp_read_int(trp_reader *in, int64_t *value)
{
    uint64_t number = 0;
    if (quick_uint(in, INT64_MAX, &number)) {
        *value = (int64_t)number;
        return TROUPE_OK;
    }
    item it;
    TROUPE_TRY(look(in, "an integer", &it));
    if (it.kind != ITEM_INT && it.kind != ITEM_UINT)
        return mismatch(in, "an integer", &it);
    if (it.kind == ITEM_UINT && it.number > INT64_MAX)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected an integer up to 2^63 - 1, found %llu at byte %zu",
                           (unsigned long long)it.number, place(in, in->at));
    *value = (int64_t)it.number;
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_uint(trp_reader *in, uint64_t *value)
{
    if (quick_uint(in, UINT64_MAX, value))
        return TROUPE_OK;
    item it;
    TROUPE_TRY(look(in, "an integer", &it));
    if (it.kind == ITEM_INT)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected an integer from 0 up, found %lld at byte %zu",
                           (long long)it.number, place(in, in->at));
    if (it.kind != ITEM_UINT)
        return mismatch(in, "an integer", &it);
    *value = it.number;
    in->at = it.next;
    return TROUPE_OK;
}

static float float_of(uint64_t bits)
{
    uint32_t half = (uint32_t)bits;
    float value;
    memcpy(&value, &half, sizeof(value));
    return value;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

troupe_status trp_read_double(trp_reader *in, double *value)
{
    item it;
    TROUPE_TRY(look(in, "a number", &it));
    if (it.kind != ITEM_DOUBLE && it.kind != ITEM_FLOAT)
        return mismatch(in, it.kind <= ITEM_INT ? "a float or a double" : "a number", &it);
    *value = it.kind == ITEM_DOUBLE ? double_of(it.number) : (double)float_of(it.number);
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_float(trp_reader *in, float *value)
{
    item it;
    TROUPE_TRY(look(in, "a number", &it));
    if (it.kind != ITEM_FLOAT)
        return mismatch(in, it.kind <= ITEM_DOUBLE ? "a float" : "a number", &it);
    // Not by way of a double, which would change the bits of a signalling NaN.
    *value = float_of(it.number);
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_text(trp_reader *in, const char **text, size_t *size)
{
    item it;
    TROUPE_TRY(look(in, "text", &it));
    if (it.kind == ITEM_NIL) {
        *text = NULL;
        *size = 0;
    } else {
        if (it.kind != ITEM_TEXT)
            return mismatch(in, "text", &it);
        size_t good = trp_text_good((const char *)it.payload, it.number);
        if (good != it.number)
            return troupe_fail(TROUPE_MALFORMED,
                               it.payload[good] == 0
                                   ? "expected text, found a NUL inside it at byte %zu"
                                   : "expected text in UTF-8, found another byte at byte %zu",
                               place(in, it.payload + good));
        *text = (const char *)it.payload;
        *size = it.number;
    }
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_bytes(trp_reader *in, const void **data, size_t *size)
{
    item it;
    TROUPE_TRY(look(in, "bytes", &it));
    if (it.kind != ITEM_BYTES)
        return mismatch(in, "bytes", &it);
    *data = it.payload;
    *size = it.number;
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_array(trp_reader *in, uint32_t *count)
{
    item it;
    TROUPE_TRY(look(in, "an array", &it));
    if (it.kind != ITEM_ARRAY)
        return mismatch(in, "an array", &it);
    *count = (uint32_t)it.number;
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_nil(trp_reader *in)
{
    item it;
    TROUPE_TRY(look(in, "nil", &it));
    if (it.kind != ITEM_NIL)
        return mismatch(in, "nil", &it);
    in->at = it.next;
    return TROUPE_OK;
}

troupe_status trp_read_skip(trp_reader *in)
{
    // How many items are still to come at each level; the skipped item itself is on level 0.
    uint64_t owed[TRP_DEPTH_MAX + 1] = {1};
    int level = 0;
    const unsigned char *start = in->at;
    while (level >= 0) {
        if (owed[level] == 0) {
            level--;
            continue;
        }
        owed[level]--;
        item it;
        troupe_status status = look(in, "an item", &it);
        if (status == TROUPE_OK && (it.kind == ITEM_ARRAY || it.kind == ITEM_MAP)) {
            if (in->depth + level == TRP_DEPTH_MAX)
                status = troupe_fail(TROUPE_MALFORMED, "nested deeper than %d levels at byte %zu",
                                     TRP_DEPTH_MAX, place(in, in->at));
            else
                owed[++level] = it.kind == ITEM_MAP ? 2 * it.number : it.number;
        }
        if (status != TROUPE_OK) {
            in->at = start;
            return status;
        }
        in->at = it.next;
    }
    return TROUPE_OK;
}

troupe_status trp_read_end(const trp_reader *in)
{
    if (in->at != in->end)
        return troupe_fail(TROUPE_MALFORMED, "expected the end at byte %zu, found %zu more bytes",
                           place(in, in->at), (size_t)(in->end - in->at));
    return TROUPE_OK;
}

// ---- UTF-8

// The length of the sequence at `at`, or 0: overlong, a surrogate, above 0x10ffff, cut, or NUL.
static size_t sequence(const unsigned char *at, size_t left)
{
    unsigned head = at[0];
    if (head < 0x80)
        return head != 0;
    size_t size = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
    if (head < 0xc2 || head > 0xf4 || size > left)
        return 0;
    // The second byte's range excludes what a longer form must not say.
    unsigned low = head == 0xe0 ? 0xa0 : head == 0xf0 ? 0x90 : 0x80;
    unsigned high = head == 0xed ? 0x9f : head == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

size_t trp_text_good(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t good = 0;
    while (good < size) {
        uint64_t eight;
        if (size - good >= sizeof(eight)) {
            memcpy(&eight, bytes + good, sizeof(eight));
            // No byte above 0x7f, and none is 0 (each keeps its high bit after 1 is taken from 0x80
            // + it).
            uint64_t high = 0x8080808080808080u;
            if (!(eight & high) && (((eight | high) - 0x0101010101010101u) & high) == high) {
                good += sizeof(eight);
                continue;
            }
        }
        size_t step = sequence(bytes + good, size - good);
        if (step == 0)
            break;
        good += step;
    }
    return good;
}
