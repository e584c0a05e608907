// sealed.c: reading sealed files; what is read is checked before anything uses it.
#include <endian.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/unpack.h>
#include <stdio.h>
#include <string.h>
#include <train/sealed.h>
#include <train/storage.h>

enum { SEALED_VERSION = 1, NAME_SIZE = 72 };
static const char magic[8] = "TRPSEAL\n";

typedef struct header {
    char magic[8];
    uint64_t version; // This and the following numbers little-endian.
    uint64_t schema;
    uint64_t size;
    uint64_t checksum;
    char name[NAME_SIZE]; // Terminated, and cut if need be: for sentences; the schema decides.
    uint64_t own_checksum;
} header;
_Static_assert(sizeof(header) == 120, "the header is the same on every machine");

static uint64_t own_checksum(const header *head)
{
    return trp_digest(head, offsetof(header, own_checksum));
}

bool trp_sealed_is(const void *data, size_t size)
{
    return size >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0;
}

// Checks what was read of a file, and says what its header says.
static troupe_status check(const char *path, const unsigned char *data, size_t size, header *head,
                           trp_seal *seal)
{
    if (size < sizeof(*head))
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has %zu bytes, its header alone %zu",
                           path, size, sizeof(*head));
    memcpy(head, data, sizeof(*head));
    if (memcmp(head->magic, magic, sizeof(magic)) != 0)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it does not begin as a state file",
                           path);
    if (le64toh(head->own_checksum) != own_checksum(head))
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its header's checksum is wrong", path);
    if (le64toh(head->version) != SEALED_VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "%s has format version %" PRIu64 ", this library reads %d", path,
                           le64toh(head->version), SEALED_VERSION);
    *seal = (trp_seal){le64toh(head->schema), le64toh(head->size), le64toh(head->checksum)};
    head->name[NAME_SIZE - 1] = '\0';
    if (seal->size != size - sizeof(*head))
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: it has %zu bytes of content, expected %" PRIu64, path,
                           size - sizeof(*head), seal->size);
    if (trp_digest(data + sizeof(*head), seal->size) != seal->checksum)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its checksum is wrong", path);
    return TROUPE_OK;
}

troupe_status trp_sealed_verify(const char *path, trp_seal *seal)
{
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_storage_read(path, &data, &size));
    header head;
    troupe_status status = check(path, data, size, &head, seal);
    trp_free(data);
    return status;
}

troupe_status trp_sealed_unpack(const char *path, const troupe_type *type, const void *data,
                                size_t size, const trp_expected *expected, trp_arena *arena,
                                void *value)
{
    header head;
    trp_seal seal;
    TROUPE_TRY(check(path, (const unsigned char *)data, size, &head, &seal));
    trp_expected is = {size, 0, false};
    if (expected)
        is = expected->payload ? (trp_expected){seal.size, seal.checksum, true}
                               : (trp_expected){size, trp_digest(data, size), false};
    if (expected && (is.size != expected->size || is.digest != expected->digest))
        return troupe_fail(TROUPE_CORRUPT, "%s is not the file that its checkpoint was made with",
                           path);
    if (seal.schema != troupe_type_hash(type))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "%s holds a '%s' with schema %016" PRIx64
                           ", asked for was a '%s' with schema %016" PRIx64,
                           path, head.name, seal.schema, type->name, troupe_type_hash(type));
    trp_reader in = trp_reader_of((const unsigned char *)data + sizeof(head), seal.size);
    troupe_status status = trp_unpack(type, &in, arena, value);
    if (status == TROUPE_OK)
        status = trp_read_end(&in);
    return status == TROUPE_MALFORMED ? trp_error_prefix("%s", path) : status;
}

troupe_status trp_sealed_read(const char *path, const troupe_type *type,
                              const trp_expected *expected, trp_arena *arena, void *value)
{
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_storage_read(path, &data, &size));
    troupe_status status = trp_sealed_unpack(path, type, data, size, expected, arena, value);
    trp_free(data);
    return status;
}
