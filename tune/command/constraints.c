// constraints.c: see tune/command/constraints.h.
#include <tune/command/constraints.h>

#include <math.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX = 128, DEPTH_MAX = 32 };

// One text as it is read. It is short: it is worked out as it is read, each time.
typedef struct reading {
    const char *text, *at;
    const trp_json *params; // NULL: names are taken as they come.
    bool only_names;        // Of params, the values do not count.
    int depth;
    bool missing; // A parameter is not there.
    troupe_status status;
} reading;

static double fail(reading *it, const char *expected)
{
    if (it->status == TROUPE_OK)
        it->status = troupe_fail(
            TROUPE_INVALID,
            "the constraint \"%.200s\" has '%.20s' at byte %zu: expected %s, as "
            "in \"width * depth <= 1024\"",
            it->text, *it->at != '\0' ? it->at : "its end", (size_t)(it->at - it->text), expected);
    return 0;
}

static bool take(reading *it, const char *what)
{
    it->at += strspn(it->at, " \t");
    size_t length = strlen(what);
    if (strncmp(it->at, what, length) != 0)
        return false;
    it->at += length;
    return true;
}

static double read_name(reading *it)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                      rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.[]";
    char name[NAME_MAX];
    trp_json found;
    double value = 1;
    size_t length = strspn(it->at, first) > 0 ? strspn(it->at, rest) : 0;
    if (length == 0 || length >= sizeof name)
        return fail(it, "a number, the name of a parameter or '('");
    snprintf(name, sizeof name, "%.*s", (int)length, it->at);
    bool there = it->params == NULL || trp_json_member(*it->params, name, &found);
    if (!there && it->only_names)
        return fail(it, "the name of a parameter of the space");
    it->at += length;
    it->missing = it->missing || !there;
    if (it->params == NULL || it->only_names || !there)
        return value;
    // What is no number holds: the space may choose among things of several kinds.
    it->missing |= trp_json_read(&troupe_type_double, found, NULL, &value) != TROUPE_OK;
    return value;
}

static double read_sum(reading *it);

static double read_factor(reading *it)
{
    double value;
    char *end;
    if (++it->depth > DEPTH_MAX)
        return fail(it, "fewer parentheses within each other");
    if (take(it, "(")) {
        value = read_sum(it);
        if (!take(it, ")"))
            value = fail(it, "')'");
    } else if (take(it, "-")) {
        value = -read_factor(it);
    } else if (*it->at != '\0' && strchr("0123456789.", *it->at) != NULL) {
        value = strtod(it->at, &end);
        if (end == it->at)
            return fail(it, "a number");
        it->at = end;
    } else {
        value = read_name(it);
    }
    it->depth--;
    return value;
}

static double read_product(reading *it)
{
    double value = read_factor(it);
    while (it->status == TROUPE_OK) {
        if (take(it, "*"))
            value *= read_factor(it);
        else if (take(it, "/"))
            value /= read_factor(it);
        else
            break;
    }
    return value;
}

static double read_sum(reading *it)
{
    double value = read_product(it);
    while (it->status == TROUPE_OK) {
        if (take(it, "+"))
            value += read_product(it);
        else if (take(it, "-"))
            value -= read_product(it);
        else
            break;
    }
    return value;
}

static bool read_constraint(reading *it)
{
    static const char *const signs[] = {"<=", ">=", "==", "!=", "<", ">"};
    size_t sign = 0;
    double left = read_sum(it), right;
    while (it->status == TROUPE_OK && sign < 6 && !take(it, signs[sign]))
        sign++;
    if (it->status == TROUPE_OK && sign == 6)
        (void)fail(it, "<, <=, >, >=, == or !=");
    right = it->status == TROUPE_OK ? read_sum(it) : 0;
    it->at += strspn(it->at, " \t");
    if (it->status == TROUPE_OK && *it->at != '\0')
        (void)fail(it, "its end");
    switch (sign) {
    case 0:
        return left <= right;
    case 1:
        return left >= right;
    case 2:
        return left == right;
    case 3:
        return left != right;
    case 4:
        return left < right;
    default:
        return left > right;
    }
}

troupe_status trp_constraint_check(const char *text, const trp_json *names)
{
    reading it = {.text = text, .at = text, .params = names, .only_names = true};
    (void)read_constraint(&it);
    return it.status;
}

bool trp_constraints_allow(void *user, const void *config)
{
    const trp_constraints *all = user;
    const char *text = config;
    trp_json params;
    if (trp_json_parse(text, strlen(text), &params) != TROUPE_OK)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        reading it = {.text = all->texts[i], .at = all->texts[i], .params = &params};
        bool holds = read_constraint(&it);
        if (!holds && !it.missing)
            return false;
    }
    return true;
}
