// A wrong clock, to be preloaded: what the wall clock says is off by the seconds in the first eight bytes of the file $CLOCK. Clocks that only run, as of timers, are right.
// It allocates nothing, for allocators ask for the time, too.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *offset;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("CLOCK");
	int f = path ? open(path, O_RDONLY) : -1;
	if (f < 0) return;
	void *at = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, f, 0);
	if (at != MAP_FAILED) offset = at;
	close(f);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *offset;
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	struct timespec s;
	if (clock_gettime(CLOCK_REALTIME, &s)) return -1;
	t->tv_sec = s.tv_sec;
	t->tv_usec = s.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec s;
	if (clock_gettime(CLOCK_REALTIME, &s)) return -1;
	if (t) *t = s.tv_sec;
	return s.tv_sec;
}
