// machine.h: what this machine has, as far as it is shown to people.
#ifndef TRP_HOST_MACHINE_H
#define TRP_HOST_MACHINE_H

// Bytes of memory that this machine has, and that are in use, from a file like /proc/meminfo (NULL:
// that one). A total of 0: it is not known.
void trp_machine_memory(const char *path, double *used, double *total);

#endif
