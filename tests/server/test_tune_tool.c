// test_tune_tool.c: `troupe tune` over programs that know nothing of Troupe, from the shell: as
// runs of its own and as jobs of the train server.
// timeout: 120
// cost: 20
#include "shell_tool.h"

static int start(void **state)
{
    (void)state;
    open_folder();
    expect(0,
           "printf '%s' '{\"space\": {\"x\": {\"grid\": [4, 1, 9]}, \"y\": 2}, \"metric\": "
           "\"loss\", \"goal\": \"min\", \"storage\": \"runs\", \"resources\": {\"cpus\": 0.5}}' "
           ">sweep.json",
           "");
    return 0;
}

#define PROGRAM "sh -c 'echo words; echo \"{\\\"loss\\\": {x}}\"'"

// E08: what the trials print is in their logs alone.
static void test_a_program_is_tuned(void **state)
{
    (void)state;
    expect(0, "$T tune --name plain sweep.json -- " PROGRAM, "best: sh_");
    assert_non_null(strstr(output, ", 1 with {\"x\": 1, \"y\": 2}"));
    assert_null(strstr(output, "words"));
    expect(0, "grep -l words runs/plain/*/log/rank_00000.log | wc -l", "3");
    expect(0, "$T tune --json --name json - <sweep.json -- " PROGRAM, "{\"x\": 1, \"y\": 2}\n");
    assert_true(output[0] == '{');
    expect(0, "$T tune -v -n 1 --name loud sweep.json -- " PROGRAM, "words");
    expect(0, "$T tune --json sweep.json -n 1 --name behind -- " PROGRAM, "{\"x\": 1, \"y\": 2}\n");
    expect(0, "$T tune -q --name table sweep.json -- " PROGRAM, "TERMINATED");
    expect(0,
           "sed 's/\"goal\"/\"columns\": \"kept\", \"goal\"/' sweep.json >columns.json; $T tune -q "
           "--name columns columns.json -- sh -c 'echo \"{\\\"loss\\\": {x}, \\\"kept\\\": 3, "
           "\\\"left_out\\\": 4}\"'",
           "| kept");
    assert_null(strstr(output, "left_out"));
    expect(0, "$T tune --name lines sweep.json -- " PROGRAM, "TERMINATED"); // Behind its lines.
    expect(0,
           "sed 's/\"x\"/\"z\"/; s/\"goal\"/\"warm\": [\"runs\\/plain\\/trials.jsonl\"], &/' "
           "sweep.json "
           ">warm.json; $T tune -q --name warm warm.json -- sh -c 'echo \"{\\\"loss\\\": {z}}\"'",
           "nothing is learned from runs/plain/trials.jsonl: no trial of it");
    expect(0, "$T tune best runs/plain", "{\"x\": 1, \"y\": 2}");
    expect(0, "$T tune train-best runs/plain", "{\"loss\": 1}");
    // From any folder, and with what a trial has.
    expect(
        0,
        "echo 'echo \"{\\\"loss\\\": $1}\"; echo $TROUPE_TRIAL $TROUPE_CONFIG' >own.sh; $T tune -q "
        "--name own sweep.json -- sh own.sh {x}",
        "TERMINATED");
    expect(0, "mkdir -p other; cd other; $T tune train-best ../runs/own",
           "1 {\"x\": 1, \"y\": 2}\n");
    expect(0, "$T tune best --scope last-5-avg runs/plain", "{\"x\": 1, \"y\": 2}");
    expect(0, "$T tune export runs/plain", ",TERMINATED,1,");
    expect(0, "$T tune report runs/plain", "runs/plain/report.html");
}

// A tuner that is killed begins the program that ran once more when it is started again, and no
// other one.
static void test_a_killed_tuner_goes_on(void **state)
{
    (void)state;
    static const char program[] =
        "sh -c 'echo $TROUPE_TRIAL >>began; echo \"{\\\"loss\\\": {x}}\"; "
        "test -e go || test $TROUPE_TRIAL = 0 || sleep 30'";
    char command[1200];
    snprintf(command, sizeof command,
             "{ $T tune -q -j 1 --name killed sweep.json -- %s >first 2>&1 & p=$!; i=0; until grep "
             "-q 1 began || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done; kill -9 $p; wait $p; "
             "touch go; true; }",
             program);
    expect(0, command, "");
    snprintf(command, sizeof command, "$T tune -q -j 1 --resume --name killed sweep.json -- %s",
             program);
    expect(0, command, ", 1 with {\"x\": 1");
    expect(0, "sort began | tr -d '\\n'", "0112");
    expect(0, "grep -c '\"event\": \"submitted\"' runs/killed/trials.jsonl", "3\n");
}

// A tuner that is killed leaves its trials to the server, and goes on when it is started again.
static void test_trials_of_the_server(void **state)
{
    (void)state;
    expect(0, "$T tune --server --name far sweep.json -- " PROGRAM, ", 1 with {\"x\": 1");
    expect(0, "$T jobs --all", "sh_");
    // The server's runner makes files for other programs, of what was drawn.
    expect(0,
           "i=0; until grep -q '\"x\":1' runs/far/*/params.json || [ $i = 100 ]; do i=$((i + 1)); "
           "sleep 0.1; done; cat runs/far/*/params.json",
           "{\"x\":1,\"y\":2}\n");
    // It is what the server shows and tells trackers of, too.
    expect(0, "grep -rhoE '\"config\": \\{\"x\": ?1,[^}]*\\}' state --include=job.json",
           "{\"x\":1,\"y\":2}\n");
    expect(0, "$T tune --server --resume --name far sweep.json -- " PROGRAM, ", 1 with {\"x\": 1");
    // In a larger space: the trials before are as they were.
    expect(0,
           "printf '%s' '{\"space\": {\"x\": {\"grid\": [4, 1, 9, 0.5]}, \"y\": 2, \"z\": "
           "{\"choice\": [7, 8], \"before\": 7}}, \"metric\": \"loss\", \"goal\": \"min\", "
           "\"storage\": \"runs\", \"resources\": {\"cpus\": 0.5}}' >larger.json",
           "");
    expect(0, "$T tune --server --resume --name far larger.json -- " PROGRAM,
           ", 0.5 with {\"x\": 0.5");
    expect(0, "grep -c '\"event\": \"submitted\"' runs/far/trials.jsonl", "4\n");
    expect(
        1, "$T tune --server --resume --name far sweep.json -- " PROGRAM,
        "x was {\"grid\": [4, 1, 9, 0.5]} and is {\"grid\": [4, 1, 9]}, which has not all of it");
    expect(0, "$T tune report runs/far", "report.html");
    expect(1, "$T tune --resume --name nowhere sweep.json -- " PROGRAM,
           "there is no sweep of that name to go on with");
}

static void test_a_signal_stops_it(void **state)
{
    (void)state;
    expect(3,
           "$T tune -q --name cut sweep.json -- sh -c 'touch up; exec sleep 30' & p=$!; i=0; until "
           "[ -e up ] || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done; kill $p; wait $p",
           "it was stopped before a trial had a value of the metric");
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    expect(2, "$T tune sweep.json", "usage: troupe tune [OPTION...] FILE -- PROGRAM");
    expect(2, "$T tune -n none sweep.json -- true", "none");
    expect(2, "$T tune --cpus some sweep.json -- true", "--cpus is \"some\"");
    expect(2, "$T tune --odd sweep.json -- true", "usage: ");
    expect(1, "$T tune nothing.json -- true", "nothing.json cannot be read: No such file");
    expect(1, "$T tune sweep.json -- ./sweep.json", "'./sweep.json' cannot be executed");
    expect(1, "$T tune sweep.json -- no-such-program", "there is no program 'no-such-program'");
    expect(1, "$T tune sweep.json -- echo {z}", "has {z}, which the space has not");
    expect(1, "echo '{' >bad.json; $T tune bad.json -- true", "troupe tune: bad.json: JSON: ");
    expect(1, "$T tune --name silent sweep.json -- true", "it has ended without a report");
    expect(1, "$T tune -q --cpus 5000 sweep.json -- true", "need 5000 CPUs");
    assert_null(strstr(output, "Trial name")); // None has begun.
    expect(1, "$T tune --name fails sweep.json -- sh -c 'echo why >&2; exit 7'", "why");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_is_tuned),    cmocka_unit_test(test_a_killed_tuner_goes_on),
        cmocka_unit_test(test_trials_of_the_server),  cmocka_unit_test(test_a_signal_stops_it),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, start, close_folder);
}
