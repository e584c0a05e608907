// fault.h: named places where a test can make the process die, to prove that a death there is
// harmless. Compiled to nothing in release builds.
//
//     trp_fault_kill_at("store", 3);   // the third store point that this process reaches is its
//     last TRP_FAULT("store");
#ifndef TRP_BASE_FAULT_H
#define TRP_BASE_FAULT_H

#ifdef TROUPE_FAULTS
// From now on the `count`th point of that name kills the process with SIGKILL; 0: none does.
// `name` must stay valid.
void trp_fault_kill_at(const char *name, long count);
// The `count`th point of that name, and no other, calls `act` first.
void trp_fault_call_at(const char *name, long count, void (*act)(void));
void trp_fault_reached(const char *name);
#define TRP_FAULT(name) trp_fault_reached(name)
#else
#define TRP_FAULT(name) ((void)0)
#endif

#endif
