/* Preloaded into a server: its wall clock is off by the nanoseconds that a file holds.
 *
 * The file is mapped, so a test sets the clock of all processes of a server at once, while they
 * run. CLOCK_MONOTONIC and timers are not touched. libfaketime cannot be used: a signal handler
 * that interrupts its epoll_wait reads the true time, so lock_timeout of PostgreSQL never fires.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static const volatile int64_t zero, *ahead = &zero;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("MSH_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        abort();
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    ahead = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = now->tv_sec * SECOND + now->tv_nsec + *ahead;
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
