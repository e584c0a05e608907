// ask.h: what the commands of the train server share: its state folder, a connection to it, and
// how what it says is shown.
#ifndef TRP_SERVER_ASK_H
#define TRP_SERVER_ASK_H

#include <server/program.h>
#include <train/server_link.h>
#include <train/state_folder.h>

typedef struct trp_asker {
    const char *command; // "troupe jobs", of sentences.
    trp_path folder;
    trp_server_link *link;
    trp_arena arena;
} trp_asker;

// Finds the state folder and connects. *runs: whether there is a server; where `needed` and there
// is none, or where anything else fails, says so, and gives what to end with; else PROGRAM_DONE.
int trp_asker_open(trp_asker *asker, const char *command, bool needed, bool *runs);
void trp_asker_close(trp_asker *asker);
// Asks; where that fails, says why: false.
bool trp_asker_ask(trp_asker *asker, trp_wire_kind kind, const troupe_type *type, const void *value,
                   trp_wire_kind answer, const troupe_type *has, void *out);

// What came of wishes: lines for people as they are answered, or an array of JSON.
typedef struct trp_wish_list {
    bool json;
    trp_buffer text;
} trp_wish_list;

// Wishes something of a job, and says what came of it: `done`, as "is to stop", unless the server
// has a text. `given`: how the wish was said. False: it was refused.
bool trp_asker_wish(trp_asker *asker, const trp_wire_wish *wish, const char *given,
                    const char *done, trp_wish_list *list);
// Prints the array.
void trp_wish_list_end(trp_wish_list *list);
// Says the last error in the name of the command, and gives PROGRAM_FAILED.
int trp_asker_fail(const trp_asker *asker);

// Which job a text names: that of the number, or else that of the key.
trp_wire_job_name trp_job_named(const char *text);

// Prints a value as JSON, and a line's end.
void trp_print_json(const troupe_type *type, const void *value);

// "3 min 20 s", "2026-11-26 18:55"
const char *trp_show_time(double seconds, char text[32]);
const char *trp_show_date(double unix_s, char text[32]);

#endif
