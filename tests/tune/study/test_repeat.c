// test_repeat.c: records that go on, and those that cannot: torn, damaged, newer, another study's.
#include "study_tests.h"

static char *text;
static size_t text_size;

#define STUDY(study, ...)                                                                          \
    troupe_study_open(space, study, .searcher = troupe_search_random(), .file = path,              \
                      .scheduler = troupe_asha(.grace = 1, .reduction = 2, .limit = 4), .seed = 3, \
                      __VA_ARGS__)

// A few trials, of every kind.
static void live(troupe_study *study, int asks)
{
    troupe_asked asked;
    for (int i = 0; i < asks; i++) {
        troupe_act act = TROUPE_ACT_GO_ON;
        ok(troupe_study_ask(study, &asked));
        double loss = loss_of(asked.config);
        for (int k = 1; k <= asked.number && act == TROUPE_ACT_GO_ON; k++)
            ok(troupe_study_report(study, asked.number, loss / k, &act));
        if (act == TROUPE_ACT_GO_ON)
            ok(asked.number == 0 ? troupe_study_tell_failed(study, 0, "no \"luck\"")
                                 : troupe_study_tell(study, asked.number, loss));
    }
}

static int make_text(void **state)
{
    troupe_study *study;
    open_study_tests(state);
    ok(STUDY(&study, .trials = 6));
    live(study, 6);
    troupe_study_free(&study);
    text = support_read_file(path);
    text_size = strlen(text);
    return 0;
}

static int free_text(void **state)
{
    free(text);
    return close_study_tests(state);
}

// Wherever the file ends, the study goes on, and comes to the same.
static void test_a_record_may_end_anywhere(void **state)
{
    (void)state;
    for (size_t size = 0; size <= text_size; size++) {
        troupe_study *study;
        support_write_file(path, text, size);
        ok(STUDY(&study, .trials = 6, .open = TROUPE_OPEN_RESUME));
        troupe_asked asked;
        while (troupe_study_ask(study, &asked) == TROUPE_OK) {
            troupe_act act = TROUPE_ACT_GO_ON;
            double loss = loss_of(asked.config);
            for (int k = 1; k <= asked.number && act == TROUPE_ACT_GO_ON; k++)
                ok(troupe_study_report(study, asked.number, loss / k, &act));
            if (act == TROUPE_ACT_GO_ON)
                ok(asked.number == 0 ? troupe_study_tell_failed(study, 0, "no \"luck\"")
                                     : troupe_study_tell(study, asked.number, loss));
        }
        troupe_study_free(&study);
        char *now = support_read_file(path);
        // Times alone may differ.
        for (const char *a = text, *b = now; *a != '\0' || *b != '\0'; a++, b++) {
            const char *times = "\"elapsed_s\": ";
            if (strncmp(a, times, strlen(times)) == 0) {
                a += strcspn(a, ",");
                b += strcspn(b, ",");
            }
            if (*a != *b)
                fail_msg("cut at byte %zu: %.60s, not %.60s", size, b, a);
        }
        free(now);
    }
}

static const char *line_at(int number)
{
    const char *at = text;
    for (; number > 1; number--)
        at = strchr(at, '\n') + 1;
    return at;
}

static size_t line_size(int number)
{
    return strcspn(line_at(number), "\n") + 1;
}

static void opens(troupe_status expected, const char *part)
{
    troupe_study *study = NULL;
    char *before = support_read_file(path);
    refused(STUDY(&study, .trials = 6, .open = TROUPE_OPEN_RESUME), expected, part);
    assert_null(study);
    char *after = support_read_file(path);
    assert_string_equal(before, after); // It is left as it is.
    free(before);
    free(after);
}

// The text with line `number` replaced by what it is with.
static void write_with(int number, const char *with)
{
    size_t before = (size_t)(line_at(number) - text);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)before, text, with, line_at(number) + line_size(number));
    fclose(file);
}

// The number of the first line that begins so.
static int line_like(const char *beginning)
{
    int number = 1;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, number++) {
        if (strncmp(at, beginning, strlen(beginning)) == 0)
            return number;
    }
    fail_msg("no line like %s", beginning);
    return 0;
}

static void test_damaged_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *with, *part;
    } rows[] = {
        {"{\"event\": \"suggest\", \"trial\": 1", "garbage\n", "expected a value"},
        {"{\"event\": \"suggest\", \"trial\": 1", "\n", "expected a value"},
        {"{\"event\": \"suggest\", \"trial\": 1", "", "has not begun"},
        {"{\"event\": \"suggest\", \"trial\": 1", "{\"event\": \"suggest\", \"trial\": 1}\n",
         "it lacks \"x\""},
        {"{\"event\": \"suggest\", \"trial\": 1",
         "{\"event\": \"suggest\", \"trial\": 1, \"x\": [1, 2, 32]}\n",
         "\"x\" is not an array of 4 numbers"},
        {"{\"event\": \"suggest\", \"trial\": 1",
         "{\"event\": \"suggest\", \"trial\": 1, \"x\": [1, 2, 33, 0]}\n", "gives 33 for width"},
        {"{\"event\": \"suggest\", \"trial\": 1",
         "{\"event\": \"suggest\", \"trial\": 1, \"x\": [\"NaN\", 2, 32, 0]}\n", "gives nan for x"},
        {"{\"event\": \"suggest\", \"trial\": 1",
         "{\"event\": \"suggest\", \"trial\": 0, \"x\": [1, 2, 32, 0]}\n", "not the next one"},
        {"{\"event\": \"suggest\", \"trial\": 1",
         "{\"event\": \"suggest\", \"trial\": 1.5, \"x\": [1, 2, 32, 0]}\n",
         "\"trial\" is not a whole number"},
        {"{\"event\": \"end\", \"trial\": 0", "{\"event\": \"end\", \"trial\": 0}\n",
         "it lacks \"ending\""},
        {"{\"event\": \"end\", \"trial\": 0",
         "{\"event\": \"end\", \"trial\": 0, \"ending\": \"odd\"}\n", "how a trial ends"},
        {"{\"event\": \"end\", \"trial\": 0",
         "{\"event\": \"end\", \"trial\": 9, \"ending\": \"failed\"}\n", "has not begun"},
        {"{\"event\": \"end\", \"trial\": 0",
         "{\"event\": \"end\", \"trial\": -1, \"ending\": \"failed\"}\n", "has not begun"},
        {"{\"event\": \"end\", \"trial\": 0",
         "{\"event\": \"end\", \"trial\": 0, \"ending\": \"failed\", \"error\": 5}\n",
         "expected a text"},
        {"{\"event\": \"end\", \"trial\": 1",
         "{\"event\": \"end\", \"trial\": 0, \"ending\": \"failed\"}\n", "does not run"},
        {"{\"event\": \"report\", \"trial\": 1",
         "{\"event\": \"report\", \"trial\": 1, \"number\": 0, \"values\": [1]}\n",
         "not behind the one before"},
        {"{\"event\": \"report\", \"trial\": 1",
         "{\"event\": \"report\", \"trial\": 1, \"number\": 1, \"values\": [1, 2]}\n",
         "\"values\" is not an array of 1 numbers"},
        {"{\"event\": \"report\", \"trial\": 1",
         "{\"event\": \"report\", \"trial\": 1, \"number\": 1, \"values\": [1], \"act\": "
         "\"stop\"}\n",
         "decided something else"},
        {"{\"event\": \"report\", \"trial\": 1",
         "{\"event\": \"again\", \"trial\": 1, \"fresh\": true}\n", "is not paused"},
        {"{\"event\": \"report\", \"trial\": 1", "{\"event\": \"dance\", \"trial\": 1}\n",
         "none of a study"},
        {"{\"event\": \"report\", \"trial\": 1",
         "{\"event\": \"warm\", \"trial\": -1, \"x\": [1, 2, 32, 0], \"values\": [1], \"ending\": "
         "\"complete\"}\n",
         "in a wrong place"},
        {"{\"event\": \"report\", \"trial\": 1", "{\"event\": \"extend\", \"trials\": -3}\n",
         "number of trials is none"},
    };
    char where[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int number = line_like(rows[i].line);
        write_with(number, rows[i].with);
        opens(TROUPE_CORRUPT, rows[i].part);
        if (rows[i].with[0] != '\0') {
            snprintf(where, sizeof where, "line %d of ", number);
            opens(TROUPE_CORRUPT, where);
        }
    }
}

static void test_first_lines(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        troupe_status status;
        const char *part;
    } rows[] = {
        {"\"version\": 1", "\"version\": 2", TROUPE_VERSION, "version 2 of studies"},
        {"\"version\": 1", "\"version\": 0", TROUPE_CORRUPT, "no version"},
        {"\"version\": 1, ", "", TROUPE_CORRUPT, "no version"},
        {"\"seed\": 3", "\"seed\": 4", TROUPE_EXISTS, "its seed was 4, and is 3 now"},
        {"\"seed\": 3", "\"seed\": \"x\"", TROUPE_CORRUPT, "lacks its seed"},
        {"\"minimize\"", "\"maximize\"", TROUPE_EXISTS, "other goals"},
        {"\"random\"", "\"TPE\"", TROUPE_EXISTS, "its searcher was TPE, and is random now"},
        {"reduction 2", "reduction 3", TROUPE_EXISTS,
         "its scheduler was ASHA (grace 1, reduction 3"},
        {"\"uniform\": [-5, 10]", "\"uniform\": [-5, 11]", TROUPE_EXISTS, "another study"},
        {"\"tall\"", "\"wide\"", TROUPE_EXISTS, "another study"},
        {"\"trials\": 6", "\"trials\": -6", TROUPE_CORRUPT, "has no trials"},
        {"\"trials\": 6", "\"trials\": 6, \"first\": [[1, 2, 32, 0]]", TROUPE_EXISTS,
         "other points to try first"},
        {"\"event\": \"study\"", "\"event\": \"stud\"", TROUPE_CORRUPT,
         "is not the file of a study: its line 1 is none"},
        {"\"goals\": [", "\"goals\": ", TROUPE_CORRUPT, "is damaged"},
    };
    char line[4096];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = strstr(text, rows[i].from);
        assert_true(at != NULL && at < line_at(2));
        snprintf(line, sizeof line, "%.*s%s%.*s", (int)(at - text), text, rows[i].to,
                 (int)(line_at(2) - at - (long)strlen(rows[i].from)), at + strlen(rows[i].from));
        write_with(1, line);
        opens(rows[i].status, rows[i].part);
    }
    support_write_file(path, "a,b,c\n1,2,3\n", 12);
    opens(TROUPE_CORRUPT, "is not the file of a study");
    support_write_file(path, "{\"event\": \"sweep\"}\n", 19);
    opens(TROUPE_CORRUPT, "is not the file of a study");
}

// What another program, or a hand, may have made of the same lines.
static void test_lines_need_not_be_written_by_us(void **state)
{
    (void)state;
    troupe_study *study;
    int number = line_like("{\"event\": \"end\", \"trial\": 0");
    write_with(number,
               "{\"event\": \"end\", \"ending\":\"failed\",\"x\":[1,2e0,32,0] ,"
               "\"trial\":0.0, \"note\": {\"by\": [\"hand\"]}, \"error\": \"caf\\u00e9\"}\n");
    ok(STUDY(&study, .trials = 6, .open = TROUPE_OPEN_RESUME));
    assert_string_equal(troupe_study_trial_at(study, 0)->error, "caf\xc3\xa9");
    troupe_study_free(&study);
}

// All spaces between members left out, as jq -c does.
static void test_lines_may_be_rewritten_by_tools(void **state)
{
    (void)state;
    troupe_study *study;
    char *shorter = malloc(text_size + 1), *to = shorter;
    bool quoted = false;
    for (const char *at = text; *at != '\0'; at++) {
        quoted = *at == '"' && (at == text || at[-1] != '\\') ? !quoted : quoted;
        if (*at != ' ' || quoted)
            *to++ = *at;
    }
    support_write_file(path, shorter, (size_t)(to - shorter));
    free(shorter);
    ok(STUDY(&study, .trials = 6, .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_study_count(study), 6);
    troupe_study_free(&study);
}

// Bytes that are changed, left out and put twice: what opens can be used and opened once more, and
// what does not says why.
static void test_any_bytes(void **state)
{
    (void)state;
    enum { TIMES = 1500 };
    static const char likely[] = "0123456789-.eE,:{}[]\"\\ \n";
    char *odd = malloc(2 * text_size);
    int opened = 0, refusals = 0;
    srand(99);
    for (int i = 0; i < TIMES; i++) {
        troupe_study *study = NULL;
        troupe_asked asked;
        size_t size = text_size;
        memcpy(odd, text, size);
        for (int changes = 1 + rand() % 3; changes > 0; changes--) {
            size_t at = (size_t)rand() % size, length = 1 + (size_t)rand() % 60;
            length = at + length > size ? size - at : length;
            int what = rand() % 4;
            if (what < 2) {
                odd[at] = what == 0 ? (char)rand() : likely[(size_t)rand() % (sizeof likely - 1)];
            } else if (what == 2 && size > length) {
                memmove(odd + at, odd + at + length, size - at - length);
                size -= length;
            } else if (size + length < 2 * text_size) {
                memmove(odd + at + length, odd + at, size - at);
                size += length;
            }
        }
        support_write_file(path, odd, size);
        troupe_status status = STUDY(&study, .trials = 100, .open = TROUPE_OPEN_RESUME);
        const char *const warm[] = {path};
        if (status != TROUPE_OK) {
            assert_null(study);
            assert_true(status == TROUPE_CORRUPT || status == TROUPE_EXISTS ||
                        status == TROUPE_VERSION || status == TROUPE_INVALID);
            assert_true(troupe_last_error()->text[0] != '\0');
            refusals++;
        } else {
            size_t count = troupe_study_count(study);
            ok(troupe_study_ask(study, &asked));
            count += asked.number == (int)count;
            troupe_study_free(&study);
            ok(STUDY(&study, .trials = 100, .open = TROUPE_OPEN_RESUME));
            assert_int_equal(troupe_study_count(study), count);
            troupe_study_free(&study);
            opened++;
        }
        status = troupe_study_open(space, &study, .warm = warm, .warm_count = 1,
                                   .searcher = troupe_search_random());
        assert_true(status == TROUPE_OK || status == TROUPE_INVALID);
        troupe_study_free(&study);
    }
    assert_true(opened > 20 && refusals > 100);
    free(odd);
}

static void test_new_ones(void **state)
{
    (void)state;
    troupe_study *study = NULL;
    support_write_file(path, text, text_size);
    refused(STUDY(&study, .trials = 6), TROUPE_EXISTS, "is there already");
    unlink(path);
    refused(STUDY(&study, .open = TROUPE_OPEN_RESUME), TROUPE_NOT_FOUND, "is not there");
    ok(STUDY(&study, .open = TROUPE_OPEN_RESUME_OR_NEW));
    troupe_study_free(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_may_end_anywhere),
        cmocka_unit_test(test_damaged_lines),
        cmocka_unit_test(test_first_lines),
        cmocka_unit_test(test_lines_need_not_be_written_by_us),
        cmocka_unit_test(test_lines_may_be_rewritten_by_tools),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_new_ones),
    };
    return cmocka_run_group_tests(tests, make_text, free_text);
}
