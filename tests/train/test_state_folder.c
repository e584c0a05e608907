// test_state_folder.c: where the train server's folder is, and which are refused.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/stat.h>
#include <train/state_folder.h>
#include <troupe.h>
#include <unistd.h>

static void forget_variables(void)
{
    unsetenv("TROUPE_STATE");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/ada", 1);
}

static void test_it_is_where_variables_say(void **state)
{
    (void)state;
    trp_path folder;
    forget_variables();
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_OK);
    assert_string_equal(folder.text, "/home/ada/.local/state/troupe");
    setenv("XDG_STATE_HOME", "here", 1); // Relative ones are ignored.
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_OK);
    assert_string_equal(folder.text, "/home/ada/.local/state/troupe");
    setenv("XDG_STATE_HOME", "/state", 1);
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_OK);
    assert_string_equal(folder.text, "/state/troupe");
    setenv("TROUPE_STATE", "/var/tmp/own//", 1);
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_OK);
    assert_string_equal(folder.text, "/var/tmp/own");
    setenv("TROUPE_STATE", "own", 1);
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "expected an absolute path"));
    forget_variables();
    unsetenv("HOME");
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "set TROUPE_STATE"));
}

static void test_it_has_room_for_its_socket(void **state)
{
    (void)state;
    char long_one[120] = "/";
    trp_path folder;
    struct sockaddr_un address;
    memset(long_one + 1, 'a', 94); // "/server.sock" makes it 107.
    setenv("TROUPE_STATE", long_one, 1);
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_OK);
    assert_int_equal(trp_state_folder_socket(folder.text, &address), TROUPE_OK);
    assert_int_equal(strlen(address.sun_path), 107);
    strcat(long_one, "a");
    setenv("TROUPE_STATE", long_one, 1);
    assert_int_equal(trp_state_folder_find(&folder), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "set TROUPE_STATE to a shorter one"));
}

static void test_it_is_made_for_its_user_alone(void **state)
{
    (void)state;
    char *top = support_directory_make(), named[200];
    trp_path folder, job;
    struct stat about;
    snprintf(named, sizeof named, "%s/a/b", top);
    setenv("TROUPE_STATE", named, 1);
    assert_int_equal(trp_state_folder_check(named), TROUPE_NOT_FOUND);
    mode_t before = umask(0);
    assert_int_equal(trp_state_folder_open(&folder), TROUPE_OK);
    umask(before);
    assert_string_equal(folder.text, named);
    assert_int_equal(stat(named, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(trp_state_folder_open(&folder), TROUPE_OK);
    assert_int_equal(trp_state_folder_job(named, 17, &job), TROUPE_OK);
    assert_string_equal(job.text + strlen(named), "/jobs/00000017");

    assert_int_equal(chmod(named, 0750), 0);
    assert_int_equal(trp_state_folder_open(&folder), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "chmod 700"));
    assert_int_equal(chmod(named, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chmod(top, 0755), 0);
        assert_int_equal(chown(named, 65534, 65534), 0);
        assert_int_equal(chmod(named, 0700), 0);
        char parent[200];
        snprintf(parent, sizeof parent, "%s/a", top);
        assert_int_equal(chmod(parent, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
        assert_int_equal(trp_state_folder_check(named), TROUPE_UNSUPPORTED);
        assert_int_equal(seteuid(0), 0);
        assert_non_null(strstr(troupe_last_error()->text, "user 65534 can have no train server"));
        assert_int_equal(chown(named, 12345, 12345), 0);
        assert_int_equal(trp_state_folder_open(&folder), TROUPE_UNSUPPORTED);
        assert_non_null(strstr(troupe_last_error()->text, "belongs to user 12345"));
    }
    assert_int_equal(rmdir(named), 0);
    support_write_file(named, "", 0);
    assert_int_equal(trp_state_folder_open(&folder), TROUPE_IO);
    support_directory_remove(top);
}

static void test_other_machines_files_are_refused(void **state)
{
    (void)state;
    assert_string_equal(trp_state_folder_unfit(0x6969), "NFS");
    assert_string_equal(trp_state_folder_unfit(0x65735546), "FUSE");
    assert_string_equal(trp_state_folder_unfit((long)0xfe534d42), "SMB");
    assert_string_equal(trp_state_folder_unfit((int)0xfe534d42), "SMB"); // As 32 bits have it.
    assert_string_equal(trp_state_folder_unfit(0x01021997), "9p");
    assert_null(trp_state_folder_unfit(0xef53));     // ext4
    assert_null(trp_state_folder_unfit(0x01021994)); // tmpfs
    // One that nothing can be made in.
    trp_path folder;
    setenv("TROUPE_STATE", "/proc/self/no-such-folder", 1);
    assert_int_equal(trp_state_folder_open(&folder), TROUPE_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_where_variables_say),
        cmocka_unit_test(test_it_has_room_for_its_socket),
        cmocka_unit_test(test_it_is_made_for_its_user_alone),
        cmocka_unit_test(test_other_machines_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
