// objects.c: a program that has objects and no actors of its own: all that the library needs for
// them comes with it, also where it is linked statically.
#include <stdio.h>
#include <string.h>
#include <troupe.h>

int main(int argc, char **argv)
{
    troupe_view view;
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    troupe_ref ref = troupe_put_bytes("as it is", 9);
    troupe_must(troupe_view_bytes(ref, &view, TROUPE_FOREVER));
    int same = strcmp(view.data, "as it is") == 0;
    troupe_view_end(&view);
    troupe_ref_drop(ref);
    return troupe_stop() == 0 && same ? 0 : 1;
}
