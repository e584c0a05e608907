// schedule_random.h: what test_schedule.c runs of test_schedule.random.c.
#ifndef TRP_TEST_SERVER_SCHEDULE_RANDOM_H
#define TRP_TEST_SERVER_SCHEDULE_RANDOM_H

void schedule_workloads(int count); // 0: as many as take a second or two.
void test_random_workloads(void **state);
void test_a_long_queue_is_looked_through_quickly(void **state);

#endif
