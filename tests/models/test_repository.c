// test_repository.c: a repository of models: what is pushed is opened, listed, named, deleted and
// carried away; what is hostile, damaged or missing is told.
#include "stored.h"

#include <fcntl.h>
#include <models/repository.h>
#include <sys/stat.h>
#include <unistd.h>

// A model that can be set up as its config says, and asked likewise.
TROUPE_STRUCT(picky_config, (bool, fails), (int64_t, width));
TROUPE_STRUCT(picky, (int64_t, width), (double, weight));

static troupe_status picky_setup(picky *self, const picky_config *config, troupe_use *use)
{
    (void)use;
    self->width = config->width;
    return TROUPE_OK;
}

static troupe_status picky_forward(picky *self, const troupe_tensor *x, troupe_tensor *y)
{
    assert_int_equal(x->shape[0], 1);
    assert_int_equal(x->shape[1], 3);
    assert_int_equal(x->shape[2], 1);
    for (int i = 0; i < 3; i++)
        assert_true(((const float *)x->data)[i] == 0);
    if (self->width == 0)
        return troupe_fail(TROUPE_UNSUPPORTED, "a width of 0 cannot be computed with");
    if (self->width == 8)
        return troupe_fail(TROUPE_WRONG_TYPE, "1 column, must be 8");
    if (self->width == 13)
        *y = (troupe_tensor){.dtype = TROUPE_FLOAT32, .ndim = 99};
    else
        *y = *x;
    return TROUPE_OK;
}
TROUPE_MODEL(picky, picky_config, picky, picky_setup, picky_forward, .defaults = {.width = 1},
             .input = {TROUPE_FLOAT32, 2, {3, 0}});

static char *folder, *repository, *run;

// ---- helpers

static troupe_status push(double slope, const char *key, troupe_model_ref *ref)
{
    static int number;
    char *checkpoint = stored_checkpoint(run, number++, slope);
    troupe_status status = troupe_push(line, key, checkpoint, ref, .repository = repository);
    free(checkpoint);
    return status;
}

static double slope_of(const char *ref)
{
    troupe_instance *instance;
    troupe_must(troupe_model_open_stored(line, ref, NULL, &instance, .repository = repository));
    double slope = troupe_model_self(line, instance)->slope;
    troupe_model_close(&instance);
    return slope;
}

static troupe_version_info describe(const char *ref)
{
    troupe_version_info info;
    troupe_must(troupe_repository_describe(ref, &info, .repository = repository));
    return info;
}

static int64_t number_of(const char *ref)
{
    return describe(ref).version;
}

// "1 3 4*": the versions of a key, the damaged ones marked.
static const char *versions_of(const char *key)
{
    static char text[200];
    size_t used = 0;
    troupe_versions versions;
    text[0] = '\0';
    if (troupe_repository_list(key, &versions, .repository = repository) != TROUPE_OK)
        return troupe_status_name(troupe_last_error()->status);
    for (size_t i = 0; i < versions.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d%s", i ? " " : "",
                                 (int)versions.items[i]->version,
                                 versions.items[i]->problem ? "*" : "");
    return text;
}

static char *inside(const char *name)
{
    return support_path(repository, name);
}

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    repository = support_path(folder, "models");
    run = support_path(folder, "run");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    troupe_arena_reset();
    support_directory_remove(folder);
    free(repository);
    free(run);
    return 0;
}

// ---- push and open

// G17, G18: versions are numbers in the order of pushes; a key alone means the highest one.
static void test_what_is_pushed_is_opened(void **state)
{
    (void)state;
    troupe_model_ref ref;
    struct stat about;
    troupe_must(push(1, "digits", &ref));
    assert_string_equal(ref.text, "digits@1");
    assert_int_equal(stat(repository, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    troupe_must(push(2, "digits", &ref));
    troupe_must(push(3, "text", NULL));
    assert_string_equal(ref.text, "digits@2");
    assert_true(slope_of("digits@1") == 1);
    assert_true(slope_of("digits@000001") == 1);
    assert_true(slope_of("digits") == 2);
    assert_true(slope_of("digits@latest") == 2);
    assert_true(slope_of("text") == 3);

    // With settings over those of the version, as of a checkpoint.
    troupe_instance *instance;
    troupe_must(troupe_model_open_stored(line, "digits", "{\"rate\": 0.25}", &instance,
                                         .repository = repository));
    assert_true(troupe_model_config_of(line, instance)->rate == 0.25);
    assert_int_equal(troupe_model_config_of(line, instance)->fitting.epochs, 3);
    troupe_model_close(&instance);
    stored_said(troupe_model_open_stored(line, "digits", "{\"rat\": 0.25}", &instance,
                                         .repository = repository),
                TROUPE_NOT_FOUND, "digits@2: the settings of model 'line' have \"rat\"");
}

// Its folder is a checkpoint like any other.
static void test_a_version_is_a_checkpoint(void **state)
{
    (void)state;
    troupe_checkpoint *checkpoint;
    troupe_instance *instance;
    troupe_safetensors *weights;
    troupe_must(push(7, "digits", NULL));
    troupe_version_info info = describe("digits");
    troupe_must(troupe_checkpoint_open(info.path, &checkpoint));
    troupe_must(troupe_checkpoint_verify(checkpoint));
    troupe_checkpoint_close(&checkpoint);
    troupe_must(troupe_model_open(line, info.path, NULL, &instance));
    assert_true(troupe_model_self(line, instance)->slope == 7);
    troupe_model_close(&instance);
    assert_int_equal(info.file_count, 1);
    char *path = support_path(info.path, info.files[0].name);
    troupe_tensor slope;
    troupe_must(troupe_safetensors_open(path, &weights));
    troupe_must(troupe_safetensors_view(weights, "slope", &slope));
    assert_true(*(const double *)slope.data == 7);
    troupe_safetensors_close(&weights);
    free(path);
}

static void test_the_folder_is_found(void **state)
{
    (void)state;
    char *checkpoint = stored_checkpoint(run, 0, 1), *path;
    (void)setenv("HOME", folder, 1);
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("TROUPE_MODELS");
    troupe_must(troupe_push(line, "at_home", checkpoint, NULL));
    path = support_path(folder, ".local/state/troupe/models/at_home/000001/manifest.json");
    assert_true(support_exists(path));
    free(path);
    path = support_path(folder, "state");
    (void)setenv("XDG_STATE_HOME", path, 1);
    free(path);
    troupe_must(troupe_push(line, "in_state", checkpoint, NULL));
    path = support_path(folder, "state/troupe/models/in_state/000001/manifest.json");
    assert_true(support_exists(path));
    free(path);
    path = support_path(folder, "set//");
    (void)setenv("TROUPE_MODELS", path, 1);
    free(path);
    troupe_must(troupe_push(line, "as_set", checkpoint, NULL));
    path = support_path(folder, "set/as_set/000001/manifest.json");
    assert_true(support_exists(path));
    free(path);
    troupe_must(troupe_push(line, "given", checkpoint, NULL, .repository = "~/given"));
    path = support_path(folder, "given/given/000001/manifest.json");
    assert_true(support_exists(path));
    free(path);
    (void)unsetenv("TROUPE_MODELS");
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("HOME");
    troupe_array_troupe_text keys;
    stored_said(troupe_repository_keys(&keys), TROUPE_INVALID, "TROUPE_MODELS");
    (void)setenv("HOME", folder, 1);
    free(checkpoint);
}

// G22: what fails its own check is not stored, and why is said.
static void test_a_model_that_cannot_be_asked_is_refused(void **state)
{
    (void)state;
    const trp_model *model;
    troupe_must(trp_model_of(&troupe_model_picky, &model));
    char *checkpoint = stored_checkpoint(run, 0, 1), *path;
    troupe_model_ref ref = {"untouched"};
    stored_said(troupe_push(picky, "picky", checkpoint, &ref, .repository = repository),
                TROUPE_WRONG_TYPE, "model 'picky' was not pushed: checkpoint ");
    assert_non_null(strstr(troupe_last_error()->text, "is of 'line', not of model 'picky'"));
    stored_said(troupe_push(line, "none", "/no/such", &ref, .repository = repository),
                TROUPE_NOT_FOUND, "/no/such");
    // Its weights are another file's.
    path = support_path(checkpoint, "rank_00000.safetensors");
    support_write_file(path, "nothing", 7);
    stored_said(troupe_push(line, "line", checkpoint, &ref, .repository = repository),
                TROUPE_CORRUPT, "rank_00000.safetensors");
    free(path);
    free(checkpoint);
    assert_string_equal(ref.text, "untouched");
    assert_int_equal(support_count_files(repository), 0);
}

// Makes a checkpoint of `picky`, by a push's own means.
static char *picky_checkpoint(int64_t width)
{
    const trp_model *model;
    trp_buffer packed = {0}, text = {0};
    char config[64];
    struct {
        picky it;
        trp_progress progress;
    } kept = {.it = {width, 1}};
    trp_path path;
    troupe_must(trp_model_of(&troupe_model_picky, &model));
    troupe_must(trp_state_pack("it", &model->kept, &kept, &packed));
    trp_manifest_file file = {.path = "w",
                              .kind = TRP_FILE_STATE,
                              .size = packed.size,
                              .digest = trp_digest(packed.data, packed.size),
                              .schema = troupe_type_hash(&model->kept)};
    (void)snprintf(config, sizeof config, "{\"width\": %d}", (int)width);
    trp_manifest manifest = {
        .created = "", .trainer = "picky", .config = config, .files = {&file, 1}};
    trp_manifest_write(&manifest, &text);
    char *made = support_path(folder, "picky");
    troupe_must(trp_folder_make(made));
    troupe_must(trp_path_make(&path, "%s/w", made));
    support_write_file(path.text, packed.data, packed.size);
    troupe_must(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, made));
    support_write_file(path.text, text.data, text.size);
    trp_buffer_free(&packed);
    trp_buffer_free(&text);
    return made;
}

// G22.
static void test_a_row_of_zeros_is_asked(void **state)
{
    (void)state;
    troupe_model_ref ref;
    char *checkpoint = picky_checkpoint(2);
    troupe_must(troupe_push(picky, "picky", checkpoint, &ref, .repository = repository));
    free(checkpoint);
    checkpoint = picky_checkpoint(0);
    stored_said(troupe_push(picky, "picky", checkpoint, &ref, .repository = repository),
                TROUPE_UNSUPPORTED,
                "model 'picky' was not pushed: asked with a row of zeros: forward: a width of 0");
    free(checkpoint);
    checkpoint = picky_checkpoint(13);
    stored_said(troupe_push(picky, "picky", checkpoint, &ref, .repository = repository),
                TROUPE_INVALID, "its result is no tensor");
    free(checkpoint);
    assert_string_equal(versions_of("picky"), "1");
}

// A model may want another size than 1 where its input has dimensions of any size: its config may
// say which, as of images.
static void test_sizes_may_be_the_models_own(void **state)
{
    (void)state;
    char *checkpoint = picky_checkpoint(8);
    troupe_must(troupe_push(picky, "picky", checkpoint, NULL, .repository = repository));
    troupe_model fixed = troupe_model_picky;
    fixed.input = &(const troupe_input){TROUPE_FLOAT32, 2, {3, 1}};
    stored_said(troupe_push_as(&fixed, "picky", checkpoint, NULL,
                               TROUPE_OPTIONS(troupe_push_options, .repository = repository)),
                TROUPE_WRONG_TYPE, "asked with a row of zeros: forward: 1 column, must be 8");
    assert_string_equal(versions_of("picky"), "1");
    free(checkpoint);
}

static void test_another_model_is_told(void **state)
{
    (void)state;
    troupe_instance *instance = NULL;
    char *checkpoint = picky_checkpoint(2);
    troupe_must(troupe_push(picky, "it", checkpoint, NULL, .repository = repository));
    stored_said(troupe_model_open_stored(line, "it", NULL, &instance, .repository = repository),
                TROUPE_WRONG_TYPE, "it@1: it is of model 'picky', not of 'line'");
    // The same name, and another state.
    troupe_model other = troupe_model_line;
    other.name = "picky";
    stored_said(troupe_model_open_stored_as(&other, "it", NULL, &instance,
                                            TROUPE_REPOSITORY_OPTIONS_(.repository = repository)),
                TROUPE_WRONG_TYPE, "it@1: it has the state 'picky' with schema ");
    assert_non_null(strstr(troupe_last_error()->text, "model 'picky' of this program has 'line'"));
    // By the name alone.
    troupe_must(troupe_model_open_stored_as(NULL, "it", NULL, &instance,
                                            TROUPE_REPOSITORY_OPTIONS_(.repository = repository)));
    assert_int_equal(troupe_model_self(picky, instance)->width, 2);
    troupe_model_close(&instance);
    free(checkpoint);
}

// ---- looking

// G19: exactly the keys and versions that there are.
static void test_lists_are_exact(void **state)
{
    (void)state;
    troupe_array_troupe_text keys = {NULL, 9};
    troupe_versions versions;
    troupe_must(troupe_repository_keys(&keys, .repository = repository));
    assert_int_equal(keys.count, 0); // There is no repository yet.
    troupe_must(push(1, "text", NULL));
    troupe_must(push(2, "digits", NULL));
    troupe_must(push(3, "digits", NULL));
    troupe_must(troupe_repository_keys(&keys, .repository = repository));
    assert_int_equal(keys.count, 2);
    assert_string_equal(keys.items[0], "digits");
    assert_string_equal(keys.items[1], "text");
    troupe_must(troupe_repository_alias("digits@1", "old", .repository = repository));
    troupe_must(troupe_repository_alias("digits@1", "first", .repository = repository));
    troupe_must(troupe_repository_list("digits", &versions, .repository = repository));
    assert_int_equal(versions.count, 2);
    assert_int_equal(versions.items[0]->version, 1);
    assert_int_equal(versions.items[0]->alias_count, 2);
    assert_string_equal(versions.items[0]->aliases[0], "first");
    assert_string_equal(versions.items[0]->aliases[1], "old");
    assert_int_equal(versions.items[1]->version, 2);
    assert_int_equal(versions.items[1]->alias_count, 0);
    assert_string_equal(versions.items[1]->metrics[0].name, "loss");
    assert_true(versions.items[1]->metrics[0].value == 1.0 / 3);
    assert_int_equal(strlen(versions.items[1]->pushed), 24);
}

// G18: what is not there is told with what is.
static void test_what_is_not_there_is_listed(void **state)
{
    (void)state;
    troupe_version_info info;
    troupe_versions versions;
    troupe_instance *instance;
    for (int i = 1; i <= 6; i++)
        troupe_must(push(i, "digits", NULL));
    troupe_must(push(1, "text", NULL));
    troupe_must(troupe_repository_alias("digits@6", "new", .repository = repository));
    troupe_must(troupe_repository_delete("digits@4", .repository = repository));
    stored_said(troupe_repository_describe("digitz", &info, .repository = repository),
                TROUPE_NOT_FOUND, "there is no model 'digitz' in ");
    assert_non_null(strstr(troupe_last_error()->text, ": those that there are: digits, text"));
    stored_said(troupe_repository_list("digitz", &versions, .repository = repository),
                TROUPE_NOT_FOUND, "there is no model 'digitz'");
    stored_said(
        troupe_model_open_stored(line, "digits@4", NULL, &instance, .repository = repository),
        TROUPE_NOT_FOUND,
        "'digits' has no version 4: there are the versions 1 to 3, 5, 6, and the aliases new");
    stored_said(troupe_repository_describe("digits@newest", &info, .repository = repository),
                TROUPE_NOT_FOUND, "'digits' has no alias 'newest': there are the versions 1 to 3");
    stored_said(troupe_repository_alias("digits@7", "x", .repository = repository),
                TROUPE_NOT_FOUND, "no version 7");
    stored_said(troupe_repository_alias_remove("digits", "x", .repository = repository),
                TROUPE_NOT_FOUND, "no alias 'x'");
    stored_said(troupe_repository_delete("digits@7", .repository = repository), TROUPE_NOT_FOUND,
                "no version 7");
    stored_said(troupe_repository_describe("digits", &info, .repository = "/no/such"),
                TROUPE_NOT_FOUND, "there is no repository of models at /no/such");
}

// G24: what a version says of itself needs no code of the model.
static void test_a_version_describes_itself(void **state)
{
    (void)state;
    char *checkpoint = stored_checkpoint(run, 4, 2), *real = realpath(run, NULL);
    char *file = support_path(run, "run.json");
    static const char about[] = "{\"version\": 1, \"trainer\": \"line\", \"data\": {\"name\": "
                                "\"points\", \"keys\": [\"train\", \"valid\"]}}";
    support_write_file(file, about, strlen(about));
    free(file);
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository,
                            .alias = "production", .metadata = "{\"b\": [1, 2],  \"a\": null}"));
    troupe_version_info info = describe("digits@production");
    assert_string_equal(info.key, "digits");
    assert_int_equal(info.version, 1);
    assert_null(info.problem);
    assert_string_equal(info.model, "line");
    assert_string_equal(info.config_type, "line_config");
    assert_int_equal(info.config_schema, troupe_type_hash(&troupe_type_line_config));
    assert_string_equal(info.state_type, "line");
    assert_int_equal(info.state_schema, troupe_type_hash(&troupe_type_line));
    assert_non_null(strstr(info.config, "\"epochs\": 3"));
    assert_string_equal(info.metadata, "{\"a\":null,\"b\":[1,2]}");
    assert_int_equal(info.alias_count, 1);
    assert_string_equal(info.aliases[0], "production");
    assert_string_equal(info.pushed_as, "digits@1");
    assert_non_null(strstr(info.program, "test_repository"));
    assert_true(!info.build_id || strlen(info.build_id) >= 16);
    assert_string_equal(info.run, real);
    assert_int_equal(info.checkpoint, 4);
    assert_string_equal(info.committed, "2026-01-31T12:00:00.000Z");
    assert_int_equal(info.report, 5);
    assert_int_equal(info.world, 2);
    assert_string_equal(info.data, "points");
    assert_int_equal(info.data_key_count, 2);
    assert_string_equal(info.data_keys[1], "valid");
    // Without metadata of its own it has those of the run.
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository));
    assert_non_null(strstr(describe("digits").metadata, "the run"));
    stored_said(
        troupe_push(line, "digits", checkpoint, NULL, .repository = repository, .metadata = "[1]"),
        TROUPE_INVALID, "expected a JSON object");
    stored_said(
        troupe_push(line, "digits", checkpoint, NULL, .repository = repository, .metadata = "{"),
        TROUPE_MALFORMED, "option .metadata is not JSON");
    assert_string_equal(versions_of("digits"), "1 2");
    free(checkpoint);
    free(real);
}

static const char *said; // By says_so; NULL: nothing.
static troupe_status says_how;

static troupe_status says_so(const troupe_model *model, const char **text)
{
    assert_string_equal(model->name, "line");
    *text = said != NULL ? troupe_arena_text(said) : NULL;
    return says_how == TROUPE_OK ? says_how : troupe_fail(says_how, "nobody may have it");
}

static const char *note_of(const troupe_version_info *info, const char *name)
{
    for (size_t i = 0; i < info->note_count; i++)
        if (strcmp(info->notes[i].name, name) == 0)
            return info->notes[i].text;
    return NULL;
}

// What others say of a model is kept with the version, whoever reads it.
static void test_a_version_has_the_notes_of_its_push(void **state)
{
    (void)state;
    char *checkpoint = stored_checkpoint(run, 1, 2);
    troupe_must(troupe_push_note_register("licence", says_so));
    assert_int_equal(troupe_push_note_register("licence", says_so), TROUPE_EXISTS);
    said = "\"free\" for all";
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository));
    said = NULL;
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository));
    says_how = TROUPE_UNSUPPORTED;
    stored_said(troupe_push(line, "digits", checkpoint, NULL, .repository = repository),
                TROUPE_UNSUPPORTED, "nobody may have it");
    says_how = TROUPE_OK;
    troupe_version_info info = describe("digits@1");
    assert_string_equal(note_of(&info, "licence"), "\"free\" for all");
    info = describe("digits");
    assert_int_equal(info.version, 2);
    assert_null(note_of(&info, "licence"));
    free(checkpoint);
}

// G24: a program that lacks the model reads what there is, and is told which models it has.
static void test_a_model_that_a_program_lacks_is_named(void **state)
{
    (void)state;
    troupe_instance *instance;
    char *checkpoint = stored_checkpoint(run, 0, 2), *path, *text;
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository));
    free(checkpoint);
    // As if another program had pushed it.
    path = inside("digits/000001/" TRP_MANIFEST_NAME);
    text = support_read_file(path);
    char *name = strstr(text, "\"trainer\": \"line\"");
    assert_non_null(name);
    memcpy(name + 12, "lime", 4);
    trp_buffer out = {0};
    trp_buffer_append(&out, text, (size_t)(strstr(text, ",\n\"checksum\"") - text));
    trp_manifest_seal(&out);
    support_write_file(path, out.data, out.size);
    trp_buffer_free(&out);
    free(path);
    free(text);
    assert_string_equal(describe("digits").model, "lime");
    stored_said(troupe_model_open_stored_as(NULL, "digits", NULL, &instance,
                                            TROUPE_REPOSITORY_OPTIONS_(.repository = repository)),
                TROUPE_NOT_FOUND, "digits@1: there is no model 'lime': those that there are: ");
    assert_non_null(strstr(troupe_last_error()->text, "picky"));
}

// ---- changing

static void test_an_alias_moves(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++)
        troupe_must(push(i, "digits", NULL));
    troupe_must(troupe_repository_alias("digits@1", "production", .repository = repository));
    assert_int_equal(number_of("digits@production"), 1);
    troupe_must(troupe_repository_alias("digits", "production", .repository = repository));
    assert_int_equal(number_of("digits@production"), 3);
    troupe_must(troupe_repository_alias("digits@2", "production", .repository = repository));
    assert_int_equal(number_of("digits@production"), 2);
    troupe_must(troupe_repository_alias("digits@production", "copy", .repository = repository));
    assert_int_equal(number_of("digits@copy"), 2);
    troupe_must(troupe_repository_alias_remove("digits", "production", .repository = repository));
    stored_said(troupe_repository_alias_remove("digits", "production", .repository = repository),
                TROUPE_NOT_FOUND, "no alias 'production'");
    assert_string_equal(versions_of("digits"), "1 2 3");
    static const char *const wrong[] = {"3", "latest", "", ".x", "a/b", "a@b", "a\nb"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(troupe_repository_alias("digits@2", wrong[i], .repository = repository),
                         TROUPE_INVALID);
}

// A push that began earlier and ends later does not take the alias back.
static void test_an_alias_of_a_push_moves_forward(void **state)
{
    (void)state;
    trp_version first;
    troupe_must(push(1, "digits", NULL));
    troupe_must(push(2, "digits", NULL));
    troupe_must(troupe_repository_alias("digits@2", "production", .repository = repository));
    troupe_must(trp_version_find(repository, "digits@1", &first));
    troupe_must(trp_alias_set(&first, "production", true));
    assert_int_equal(number_of("digits@production"), 2);
    troupe_must(trp_alias_set(&first, "production", false));
    assert_int_equal(number_of("digits@production"), 1);
    char *checkpoint = stored_checkpoint(run, 100, 3);
    troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = repository,
                            .alias = "production"));
    assert_int_equal(number_of("digits@production"), 3);
    free(checkpoint);
}

static void test_a_number_is_never_used_twice(void **state)
{
    (void)state;
    troupe_model_ref ref;
    for (int i = 1; i <= 3; i++)
        troupe_must(push(i, "digits", NULL));
    troupe_must(troupe_repository_delete("digits@3", .repository = repository));
    assert_string_equal(versions_of("digits"), "1 2");
    assert_int_equal(number_of("digits"), 2);
    troupe_must(push(4, "digits", &ref));
    assert_string_equal(ref.text, "digits@4");
    troupe_must(troupe_repository_delete("digits@1", .repository = repository));
    assert_string_equal(versions_of("digits"), "2 4");
    char *path = inside("digits/000001");
    assert_false(support_exists(path)); // Nothing is left of it, nor of version 3.
    free(path);
    path = inside("digits/000003");
    assert_false(support_exists(path));
    free(path);

    troupe_must(troupe_repository_alias("digits@4", "production", .repository = repository));
    stored_said(troupe_repository_delete("digits@4", .repository = repository), TROUPE_INVALID,
                "digits@4 has the alias 'production': move or remove it first");
    stored_said(troupe_repository_delete("digits", .repository = repository), TROUPE_INVALID,
                "a version is deleted by its number: 'digits' is digits@4 now");
    stored_said(troupe_repository_delete("digits@production", .repository = repository),
                TROUPE_INVALID, "is digits@4 now");
    assert_string_equal(versions_of("digits"), "2 4");

    troupe_must(troupe_repository_delete_key("digits", .repository = repository));
    assert_string_equal(versions_of("digits"), "TROUPE_NOT_FOUND");
    stored_said(troupe_repository_delete_key("digits", .repository = repository), TROUPE_NOT_FOUND,
                "those that there are: none");
    troupe_must(push(5, "digits", &ref));
    assert_string_equal(ref.text, "digits@5");
    stored_said(troupe_repository_alias_remove("digits", "production", .repository = repository),
                TROUPE_NOT_FOUND, "production");
}

// ---- from one repository to another

// G23: out as a folder, and in again.
static void test_export_and_import(void **state)
{
    (void)state;
    troupe_model_ref ref;
    troupe_instance *instance;
    char *out = support_path(folder, "out"), *other = support_path(folder, "other");
    troupe_must(push(6, "digits", NULL));
    troupe_version_info info = describe("digits");
    troupe_must(troupe_repository_export("digits", out, .repository = repository));
    stored_said(troupe_repository_export("digits", out, .repository = repository), TROUPE_EXISTS,
                "out");
    troupe_must(troupe_model_open(line, out, NULL, &instance));
    assert_true(troupe_model_self(line, instance)->slope == 6);
    troupe_model_close(&instance);
    troupe_must(troupe_repository_import(out, "numbers", &ref, .repository = other));
    assert_string_equal(ref.text, "numbers@1");
    troupe_must(troupe_repository_import(out, "numbers", &ref, .repository = other));
    assert_string_equal(ref.text, "numbers@2");
    troupe_version_info now;
    troupe_must(troupe_repository_describe("numbers@2", &now, .repository = other));
    assert_string_equal(now.pushed_as, "digits@1");
    assert_string_equal(now.pushed, info.pushed);
    assert_int_equal(now.files[0].xxh64, info.files[0].xxh64);
    troupe_must(troupe_model_open_stored(line, "numbers", NULL, &instance, .repository = other));
    troupe_model_close(&instance);
    free(out);
    free(other);
}

static void test_only_what_was_exported_is_imported(void **state)
{
    (void)state;
    char *out = support_path(folder, "out"), *checkpoint = stored_checkpoint(run, 50, 2), *path;
    stored_said(troupe_repository_import(checkpoint, "it", NULL, .repository = repository),
                TROUPE_WRONG_TYPE, "is a checkpoint that was never pushed");
    stored_said(troupe_repository_import(folder, "it", NULL, .repository = repository),
                TROUPE_NOT_FOUND, "is no exported version: it has no " TRP_MANIFEST_NAME);
    troupe_must(push(6, "digits", NULL));
    troupe_must(troupe_repository_export("digits", out, .repository = repository));
    stored_said(troupe_repository_import(out, "../it", NULL, .repository = repository),
                TROUPE_INVALID, "the key '../it' begins with a dot");
    path = support_path(out, TRP_WEIGHTS);
    size_t size = describe("digits").files[0].size;
    assert_int_equal(truncate(path, (off_t)size - 1), 0);
    stored_said(troupe_repository_import(out, "it", NULL, .repository = repository), TROUPE_CORRUPT,
                "it has ");
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)size), 0); // As long, and all zeros.
    stored_said(troupe_repository_import(out, "it", NULL, .repository = repository), TROUPE_CORRUPT,
                "its checksum is wrong");
    // A link that leads to a file of the right bytes elsewhere.
    char *elsewhere = inside("digits/000001/" TRP_WEIGHTS);
    assert_int_equal(unlink(path), 0);
    stored_said(troupe_repository_import(out, "it", NULL, .repository = repository), TROUPE_CORRUPT,
                TRP_WEIGHTS " is missing");
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_not_equal(troupe_repository_import(out, "it", NULL, .repository = repository),
                         TROUPE_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    stored_said(troupe_repository_import(out, "it", NULL, .repository = repository), TROUPE_CORRUPT,
                "is not a file");
    assert_string_equal(versions_of("it"), "TROUPE_NOT_FOUND");
    free(elsewhere);
    free(path);
    free(out);
    free(checkpoint);
}

// ---- what is hostile or damaged

static void test_names_that_are_none_are_refused(void **state)
{
    (void)state;
    char longest[TROUPE_REPOSITORY_NAME_MAX + 2];
    memset(longest, 'k', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const char *const wrong[] = {"",    ".",    "..",   "../x", "a/b", "/etc",   ".new", "a@1",
                                 "a\n", "a\tb", "\x7f", "\xff", "@",   "a@b@c@", longest};
    troupe_version_info info;
    troupe_must(push(1, "digits", NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(push(1, wrong[i], NULL), TROUPE_INVALID);
        assert_int_equal(troupe_repository_delete_key(wrong[i], .repository = repository),
                         TROUPE_INVALID);
        char ref[300];
        (void)snprintf(ref, sizeof ref, "digits@%s", wrong[i]);
        assert_int_equal(troupe_repository_describe(ref, &info, .repository = repository),
                         TROUPE_INVALID);
    }
    assert_int_equal(
        troupe_repository_describe("../models/digits", &info, .repository = repository),
        TROUPE_INVALID);
    assert_int_equal(troupe_repository_describe("digits@0", &info, .repository = repository),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_repository_describe("digits@99999999999999999999", &info, .repository = repository),
        TROUPE_INVALID);
    longest[TROUPE_REPOSITORY_NAME_MAX] = '\0';
    troupe_model_ref ref;
    troupe_must(push(1, longest, &ref)); // One that just fits,
    troupe_must(push(1, "\xC3\xA4 b", NULL));
    assert_int_equal(number_of(ref.text), 1); // and its ref too.
    assert_int_equal(support_count_files(repository), 3);
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    troupe_version_info info;
    troupe_array_troupe_text keys;
    char *elsewhere = support_path(folder, "elsewhere"), *path = inside("link");
    troupe_must(push(1, "digits", NULL));
    char *target = inside("digits");
    assert_int_equal(rename(target, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    troupe_must(troupe_repository_keys(&keys, .repository = repository));
    assert_int_equal(keys.count, 0);
    stored_said(push(1, "link", NULL), TROUPE_IO, "link is a link: the folder of a key");
    stored_said(troupe_repository_describe("link", &info, .repository = repository), TROUPE_IO,
                "is a link");
    stored_said(troupe_repository_delete_key("link", .repository = repository), TROUPE_IO,
                "is a link");
    size_t removed;
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    // A version that is one.
    char *version = inside("digits/000007"), *of = support_path(elsewhere, "000001");
    troupe_must(push(1, "digits", NULL));
    assert_int_equal(symlink(of, version), 0);
    assert_string_equal(versions_of("digits"), "1");
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    assert_true(support_exists(of));
    free(of);
    of = support_path(elsewhere, "000001/" TRP_MANIFEST_NAME);
    assert_true(support_exists(of));
    free(of);
    free(version);
    free(target);
    free(elsewhere);
    free(path);
}

static void test_a_repository_of_others_is_not_changed(void **state)
{
    (void)state;
    troupe_must(push(1, "digits", NULL));
    assert_int_equal(chmod(repository, 0777), 0);
    stored_said(push(1, "digits", NULL), TROUPE_INVALID, "other users may write to");
    stored_said(troupe_repository_alias("digits", "x", .repository = repository), TROUPE_INVALID,
                "other users may write to");
    assert_int_equal(number_of("digits"), 1); // It can be read.
    if (geteuid() == 0) {
        assert_int_equal(chmod(repository, 0755), 0);
        assert_int_equal(chown(repository, 65534, 65534), 0);
        stored_said(push(1, "digits", NULL), TROUPE_INVALID, "belongs to user 65534");
    }
    char *file = support_path(folder, "a_file");
    support_write_file(file, "", 0);
    char *checkpoint = stored_checkpoint(run, 70, 1);
    stored_said(troupe_push(line, "digits", checkpoint, NULL, .repository = file), TROUPE_INVALID,
                "is not a folder");
    free(checkpoint);
    free(file);
}

// Every byte of the manifest, and every cut of both files, is told and crashes nothing.
static void test_damage_is_told(void **state)
{
    (void)state;
    troupe_version_info info;
    troupe_instance *instance;
    troupe_must(push(1, "digits", NULL));
    troupe_must(push(2, "digits", NULL));
    troupe_must(troupe_repository_alias("digits@2", "production", .repository = repository));
    char *path = inside("digits/000002/" TRP_MANIFEST_NAME), *text = support_read_file(path);
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= 1;
        support_write_file(path, text, size);
        text[i] ^= 1;
        assert_int_equal(troupe_repository_describe("digits", &info, .repository = repository),
                         TROUPE_CORRUPT);
        support_write_file(path, text, i);
        assert_int_equal(troupe_repository_describe("digits@2", &info, .repository = repository),
                         TROUPE_CORRUPT);
    }
    // The list has it, with what is wrong, and older versions are not taken for it.
    assert_string_equal(versions_of("digits"), "1 2*");
    troupe_versions versions;
    troupe_must(troupe_repository_list("digits", &versions, .repository = repository));
    assert_non_null(strstr(versions.items[1]->problem, "its checksum is wrong"));
    assert_string_equal(versions.items[1]->aliases[0], "production");
    stored_said(troupe_model_open_stored(line, "digits", NULL, &instance, .repository = repository),
                TROUPE_CORRUPT, "digits@2: ");
    char *out = support_path(folder, "out");
    assert_int_equal(troupe_repository_export("digits", out, .repository = repository),
                     TROUPE_CORRUPT);
    assert_false(support_exists(out));
    support_write_file(path, text, size);
    assert_true(slope_of("digits") == 2);
    free(path);

    path = inside("digits/000002/" TRP_WEIGHTS);
    assert_int_equal(truncate(path, 20), 0);
    stored_said(troupe_model_open_stored(line, "digits", NULL, &instance, .repository = repository),
                TROUPE_CORRUPT, TRP_WEIGHTS);
    assert_int_equal(troupe_repository_export("digits", out, .repository = repository),
                     TROUPE_CORRUPT);
    assert_false(support_exists(out));
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(
        troupe_model_open_stored(line, "digits", NULL, &instance, .repository = repository),
        TROUPE_OK);
    assert_true(slope_of("digits@1") == 1);
    free(path);

    path = inside("digits/" TRP_ALIASES "/production");
    support_write_file(path, "two\n", 4);
    stored_said(troupe_repository_describe("digits@production", &info, .repository = repository),
                TROUPE_CORRUPT, "production is damaged");
    support_write_file(path, "9\n", 2);
    stored_said(troupe_repository_describe("digits@production", &info, .repository = repository),
                TROUPE_CORRUPT, "names version 9, which is not there");
    troupe_must(troupe_repository_alias_remove("digits", "production", .repository = repository));
    troupe_must(troupe_repository_delete("digits@2", .repository = repository));
    assert_string_equal(versions_of("digits"), "1");
    free(path);
    free(out);
    free(text);
}

// What is sealed may say anything: it is read, or told, and nothing else is changed.
static void test_a_sealed_manifest_may_say_anything(void **state)
{
    (void)state;
    static const char signs[] = "\0/\"{[9-";
    char *out = support_path(folder, "out");
    troupe_must(push(1, "digits", NULL));
    troupe_must(troupe_repository_export("digits", out, .repository = repository));
    char *path = support_path(out, TRP_MANIFEST_NAME), *text = support_read_file(path);
    char *version = inside("digits/000001/" TRP_MANIFEST_NAME);
    size_t size = (size_t)(strstr(text, ",\n\"checksum\"") - text);
    for (size_t i = 0; i < size; i++) {
        troupe_version_info info;
        trp_buffer sealed = {0};
        char was = text[i];
        text[i] = signs[i % (sizeof signs - 1)];
        trp_buffer_append(&sealed, text, size);
        trp_manifest_seal(&sealed);
        support_write_file(version, sealed.data, sealed.size);
        support_write_file(path, sealed.data, sealed.size);
        troupe_status status =
            troupe_repository_describe("digits", &info, .repository = repository);
        if (status != TROUPE_OK && status != TROUPE_CORRUPT && status != TROUPE_VERSION)
            fail_msg("byte %zu: %s", i, troupe_last_error()->text);
        status = troupe_repository_import(out, "it", NULL, .repository = repository);
        if (status != TROUPE_OK && status != TROUPE_CORRUPT && status != TROUPE_VERSION &&
            status != TROUPE_WRONG_TYPE)
            fail_msg("byte %zu: %s", i, troupe_last_error()->text);
        troupe_arena_reset();
        trp_buffer_free(&sealed);
        text[i] = was;
    }
    assert_int_equal(support_count_files(repository), 2);
    assert_int_equal(support_count_files(folder), 3); // "models", "run", "out".
    free(version);
    free(path);
    free(text);
    free(out);
}

// A checkpoint that lies in the place of a version, without a push.
static void test_a_checkpoint_is_no_version(void **state)
{
    (void)state;
    troupe_version_info info;
    troupe_must(push(1, "digits", NULL));
    char *checkpoint = stored_checkpoint(run, 80, 2), *path = inside("digits/000002");
    assert_int_equal(rename(checkpoint, path), 0);
    stored_said(troupe_repository_describe("digits", &info, .repository = repository),
                TROUPE_CORRUPT, "is not of a version: it was never pushed");
    assert_string_equal(versions_of("digits"), "1 2*");
    free(checkpoint);
    free(path);
}

// Leaves a repository in that folder for other programs to read.
static int leave(const char *in)
{
    repository = support_path(in, "models");
    run = support_path(in, "run");
    troupe_must(push(4, "digits", NULL));
    return 0;
}

// With "--leave FOLDER" it does so.
int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--leave") == 0)
        return leave(argv[2]);
    if (access("/dev/shm", W_OK) == 0) // Files there cost no disk.
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_what_is_pushed_is_opened),
        TEST(test_a_version_is_a_checkpoint),
        TEST(test_the_folder_is_found),
        TEST(test_a_model_that_cannot_be_asked_is_refused),
        TEST(test_a_row_of_zeros_is_asked),
        TEST(test_sizes_may_be_the_models_own),
        TEST(test_another_model_is_told),
        TEST(test_lists_are_exact),
        TEST(test_what_is_not_there_is_listed),
        TEST(test_a_version_describes_itself),
        TEST(test_a_version_has_the_notes_of_its_push),
        TEST(test_a_model_that_a_program_lacks_is_named),
        TEST(test_an_alias_moves),
        TEST(test_an_alias_of_a_push_moves_forward),
        TEST(test_a_number_is_never_used_twice),
        TEST(test_export_and_import),
        TEST(test_only_what_was_exported_is_imported),
        TEST(test_names_that_are_none_are_refused),
        TEST(test_links_are_not_followed),
        TEST(test_a_repository_of_others_is_not_changed),
        TEST(test_damage_is_told),
        TEST(test_a_sealed_manifest_may_say_anything),
        TEST(test_a_checkpoint_is_no_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
