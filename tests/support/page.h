// page.h: takes an HTML page apart, for tests: every tag closed in its order, every attribute in
// quotes, every text escaped; what is in it as text, where its links lead, and its scripts.
#ifndef PAGE_H
#define PAGE_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

enum { PAGE_DEPTH = 64, PAGE_LINKS = 1024, PAGE_NAME = 32 };

typedef struct page {
    char *text; // Of all elements but scripts and the style sheet, entities resolved.
    size_t size;
    char *links[PAGE_LINKS];
    int link_count;
    int scripts, data, charts, rows, figures; // `data`: scripts that are not run.
    bool outside;                             // It names what is not in it.
} page;

typedef struct page_reader {
    const char *begin, *at;
    page *out;
    char open[PAGE_DEPTH][PAGE_NAME];
    int depth;
} page_reader;

static inline void page_wrong(const page_reader *in, const char *what)
{
    fail_msg("the page has %s at byte %zu: '%.80s'", what, (size_t)(in->at - in->begin), in->at);
}

// Reads an entity or a byte.
static inline char page_character(page_reader *in)
{
    if (*in->at != '&')
        return *in->at++;
    char *end;
    long code = in->at[1] == '#' ? strtol(in->at + 2, &end, 10) : 0;
    if (code <= 0 || code > 127 || *end != ';')
        page_wrong(in, "an '&' that is no entity");
    in->at = end + 1;
    return (char)code;
}

static inline void page_name(page_reader *in, char name[PAGE_NAME])
{
    size_t size = 0;
    while (isalnum((unsigned char)*in->at) || *in->at == '-') {
        if (size + 1 == PAGE_NAME)
            page_wrong(in, "a long name");
        name[size++] = *in->at++;
    }
    name[size] = '\0';
    if (size == 0)
        page_wrong(in, "no name");
}

static inline void page_attribute(page_reader *in, const char *tag)
{
    char name[PAGE_NAME], *value = malloc(strlen(in->at) + 1);
    size_t size = 0;
    page_name(in, name);
    if (in->at[0] != '=' || in->at[1] != '"')
        page_wrong(in, "an attribute without a value in quotes");
    for (in->at += 2; *in->at != '"';) {
        if (*in->at == '\0' || *in->at == '<' || *in->at == '>')
            page_wrong(in, "a bad attribute");
        value[size++] = page_character(in);
    }
    in->at++;
    value[size] = '\0';
    page *out = in->out;
    // Nothing is taken from elsewhere: there is no src, and a link stays within the file system.
    out->outside |= strcmp(name, "src") == 0 || strncmp(name, "on", 2) == 0 ||
                    strcmp(tag, "link") == 0 || strstr(value, "://") != NULL ||
                    (strcmp(name, "href") == 0 && (strchr(value, ':') != NULL || value[0] == '/'));
    if (strcmp(name, "href") == 0 && value[0] != '#' && out->link_count < PAGE_LINKS)
        out->links[out->link_count++] = value;
    else
        free(value);
}

static inline void page_count(page *out, const char *tag)
{
    out->charts += strcmp(tag, "svg") == 0;
    out->rows += strcmp(tag, "tr") == 0;
    out->figures += strcmp(tag, "figure") == 0;
}

// What a script or the style sheet has, to its end.
static inline void page_raw(page_reader *in, const char *tag, bool data)
{
    char end[PAGE_NAME + 4];
    snprintf(end, sizeof end, "</%s>", tag);
    const char *stop = strstr(in->at, end);
    if (stop == NULL)
        page_wrong(in, "a script without an end");
    in->out->scripts += strcmp(tag, "script") == 0 && !data;
    in->out->data += data;
    if (data && memchr(in->at, '<', (size_t)(stop - in->at)) != NULL)
        page_wrong(in, "markup within data");
    in->at = stop + strlen(end);
}

static inline void page_tag(page_reader *in)
{
    char tag[PAGE_NAME];
    in->at++;
    if (*in->at == '/') {
        in->at++;
        page_name(in, tag);
        if (*in->at++ != '>' || in->depth == 0 || strcmp(in->open[--in->depth], tag) != 0)
            page_wrong(in, "an end of what is not open before this");
        return;
    }
    page_name(in, tag);
    page_count(in->out, tag);
    bool data = strncmp(in->at, " type=\"application/json\"", 24) == 0;
    while (*in->at == ' ') {
        in->at++;
        page_attribute(in, tag);
    }
    if (in->at[0] == '/' && in->at[1] == '>') {
        in->at += 2;
        return;
    }
    if (*in->at++ != '>')
        page_wrong(in, "a bad tag before this");
    if (strcmp(tag, "script") == 0 || strcmp(tag, "style") == 0) {
        page_raw(in, tag, data);
        return;
    }
    if (in->depth == PAGE_DEPTH)
        page_wrong(in, "too much depth");
    strcpy(in->open[in->depth++], tag);
}

// Reads the page, or fails the test.
static inline page page_parse(const char *text)
{
    static const char head[] = "<!DOCTYPE html>\n";
    page out = {0};
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    page_reader in = {text, text + strlen(head), &out, {{0}}, 0};
    out.text = malloc(strlen(text) + 1);
    while (*in.at != '\0') {
        if (*in.at == '<') {
            page_tag(&in);
            continue;
        }
        unsigned char byte = (unsigned char)*in.at;
        if (*in.at == '>' || (byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f)
            page_wrong(&in, "a byte that is to be escaped");
        out.text[out.size++] = page_character(&in);
    }
    out.text[out.size] = '\0';
    if (in.depth != 0)
        fail_msg("<%s> is not closed", in.open[in.depth - 1]);
    return out;
}

static inline page page_read(const char *path)
{
    char *text = support_read_file(path);
    assert_non_null(text);
    page out = page_parse(text);
    free(text);
    return out;
}

static inline bool page_says(const page *it, const char *text)
{
    return strstr(it->text, text) != NULL;
}

// Each link leads to something, from the folder that the page is in.
static inline void page_check_links(const page *it, const char *folder)
{
    for (int i = 0; i < it->link_count; i++) {
        char path[4096];
        size_t size = (size_t)snprintf(path, sizeof path, "%s/", folder);
        for (const char *at = it->links[i]; *at != '\0'; at++) {
            unsigned code = 0;
            if (*at == '%' && sscanf(at + 1, "%2x", &code) == 1)
                at += 2;
            path[size++] = code != 0 ? (char)code : *at;
        }
        path[size] = '\0';
        if (!support_exists(path))
            fail_msg("the link %s leads nowhere: %s", it->links[i], path);
    }
}

static inline void page_free(page *it)
{
    for (int i = 0; i < it->link_count; i++)
        free(it->links[i]);
    free(it->text);
}

#endif
