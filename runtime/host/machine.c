// machine.c: see runtime/host/machine.h.
#include <runtime/host/machine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void trp_machine_memory(const char *path, double *used, double *total)
{
    char line[128];
    double all_kib = 0, free_kib = 0;
    FILE *file = fopen(path != NULL ? path : "/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "MemTotal:", 9) == 0)
            all_kib = strtod(line + 9, NULL);
        else if (strncmp(line, "MemAvailable:", 13) == 0)
            free_kib = strtod(line + 13, NULL);
    }
    if (file != NULL)
        fclose(file);
    *total = all_kib * 1024;
    *used = (all_kib - free_kib) * 1024;
}
