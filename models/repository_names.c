// repository_names.c: keys, aliases, numbers and refs, as users write them.
#include <models/repository.h>

#include <errno.h>
#include <inttypes.h>
#include <runtime/base/printable.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 18 };

static troupe_status refuse(const char *what, const char *name, const char *why)
{
    char shown[64];
    (void)trp_printable_copy(name, strlen(name), shown, sizeof shown);
    return troupe_fail(TROUPE_INVALID, "the %s '%s' %s", what, shown, why);
}

troupe_status trp_name_check(const char *what, const char *name)
{
    size_t size = strlen(name);
    if (size == 0)
        return troupe_fail(TROUPE_INVALID, "the %s is empty", what);
    if (size > TROUPE_REPOSITORY_NAME_MAX)
        return troupe_fail(TROUPE_INVALID, "the %s '%.20s...' has %zu bytes: expected at most %d",
                           what, name, size, TROUPE_REPOSITORY_NAME_MAX);
    if (name[0] == '.')
        return refuse(what, name, "begins with a dot");
    if (strchr(name, '/'))
        return refuse(what, name, "has a '/' in it");
    if (strchr(name, '@'))
        return refuse(what, name, "has a '@' in it");
    if (!trp_printable_is(name, size) || strchr(name, '\t'))
        return refuse(what, name, "has characters in it that cannot be printed");
    return TROUPE_OK;
}

static bool is_digits(const char *text)
{
    return text[0] && !text[strspn(text, "0123456789")];
}

int64_t trp_version_number(const char *text)
{
    return is_digits(text) && strlen(text) <= DIGITS_MAX ? strtoll(text, NULL, 10) : 0;
}

troupe_status trp_alias_check(const char *alias)
{
    TROUPE_TRY(trp_name_check("alias", alias));
    if (is_digits(alias))
        return refuse("alias", alias, "is a number, as versions are");
    if (strcmp(alias, TRP_LATEST) == 0)
        return refuse("alias", alias, "is always the highest version");
    return TROUPE_OK;
}

troupe_status trp_ref_parse(const char *text, trp_ref *ref)
{
    char key[TRP_NAME_SIZE + 1]; // One too long is seen as such.
    const char *at = strchr(text, '@');
    size_t size = at ? (size_t)(at - text) : strlen(text);
    if (size > TRP_NAME_SIZE)
        return trp_name_check("key", text);
    memcpy(key, text, size);
    key[size] = '\0';
    TROUPE_TRY(trp_name_check("key", key));
    *ref = (trp_ref){0};
    memcpy(ref->key, key, size + 1);
    if (!at)
        return TROUPE_OK;
    TROUPE_TRY(trp_name_check("version", at + 1));
    if (strcmp(at + 1, TRP_LATEST) == 0)
        return TROUPE_OK;
    if (!is_digits(at + 1)) {
        memcpy(ref->alias, at + 1, strlen(at + 1) + 1);
        return TROUPE_OK;
    }
    ref->number = trp_version_number(at + 1);
    return ref->number > 0 ? TROUPE_OK
                           : refuse("version", at + 1, "is no number that a version can have");
}

void trp_numbers_write(const int64_t *numbers, size_t count, trp_buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        size_t last = i;
        while (last + 1 < count && numbers[last + 1] == numbers[last] + 1)
            last++;
        trp_buffer_printf(out, "%s%" PRId64, i > 0 ? ", " : "", numbers[i]);
        if (last < i + 2) // Two in a row are shown as two.
            continue;
        trp_buffer_printf(out, " to %" PRId64, numbers[last]);
        i = last;
    }
}
