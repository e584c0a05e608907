// test_html_text.c: what a report writes of texts and figures, character by character.
#include <support.h>

#include <math.h>
#include <runtime/text/html_text.h>
#include <string.h>

// Compares what was written, and empties it.
static void expect(trp_buffer *out, const char *expected)
{
    trp_buffer_append(out, "", 1);
    assert_false(out->failed);
    assert_string_equal((const char *)out->data, expected);
    trp_buffer_free(out);
}

static void test_texts_are_never_markup(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_html_text(&out, "<b a=\"1\" c='2'>&amp;");
    expect(&out, "&#60;b a=&#34;1&#34; c=&#39;2&#39;&#62;&#38;amp;");
    trp_html_text(&out, NULL);
    expect(&out, "");
    trp_html_text(&out, "a\nb\033[2J");
    assert_null(memchr(out.data, '\n', out.size));
    assert_null(memchr(out.data, '\033', out.size));
    trp_buffer_free(&out);
    trp_html_lines(&out, "a<\nb", 4);
    expect(&out, "a&#60;\nb");
    trp_html_path(&out, "log/a b%\"?.txt");
    expect(&out, "log/a%20b%25%22%3F.txt");
}

static void test_figures(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } times[] = {
        {0, "0 s"},          {0.25, "250 ms"},   {12.34, "12.3 s"},       {200, "3 min 20 s"},
        {7500, "2 h 5 min"}, {90000, "1 d 1 h"}, {-1, "an unknown time"}, {NAN, "an unknown time"}};
    (void)state;
    trp_buffer out = {0};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        trp_html_duration(&out, times[i].seconds);
        expect(&out, times[i].text);
    }
    trp_html_size(&out, 1536);
    expect(&out, "1.5 KiB");
    trp_html_number(&out, 2.0 / 3);
    expect(&out, "0.666667");
    trp_html_number(&out, 1048576);
    expect(&out, "1048576");
    trp_html_time(&out, "2026-11-24T12:00:00.123Z");
    expect(&out, "<time datetime=\"2026-11-24T12:00:00Z\">2026-11-24 12:00:00 UTC</time>");
    trp_html_time(&out, "some <day>");
    expect(&out, "some &#60;day&#62;");
    trp_html_time(&out, "");
    expect(&out, "\xe2\x80\x93");
}

static void test_tables(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_html_table(&out, "Trials", "Trial|#Value");
    trp_html_table_end(&out);
    expect(&out, "<div class=\"wide\" role=\"region\" aria-label=\"Trials\" tabindex=\"0\">\n"
                 "<table>\n<caption>Trials</caption>\n<thead><tr><th scope=\"col\">Trial</th>"
                 "<th scope=\"col\" class=\"n\">Value</th></tr></thead>\n<tbody>\n"
                 "</tbody>\n</table>\n</div>\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_never_markup),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
