/* Heartbeats of an application for the Coplace node agent: one counter for each thread or rank.
 *
 *     coplace_heartbeat *beats = coplace_heartbeat_open(getenv("COPLACE_HEARTBEATS"));
 *     for (...) { work(); coplace_beat(beats, slot, 1); }
 *
 * Call coplace_beat as often as work of the same size is done, many times in a millisecond: a
 * shutter of 3.2 ms sees no more than the beats in it. It costs a store into the counter's own
 * cache line and no system call. Without a path, or where the file cannot be mapped, the handle is
 * NULL and beats are not counted.
 */
#ifndef COPLACE_HEARTBEAT_H
#define COPLACE_HEARTBEAT_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COPLACE_HEARTBEAT_BYTES 4096
/* One file has the counters of so many threads; slots beyond share them. */
#define COPLACE_HEARTBEAT_SLOTS 63

typedef struct {
    char magic[64];
    struct {
        uint64_t count;
        uint64_t unused[7];
    } slots[COPLACE_HEARTBEAT_SLOTS];
} coplace_heartbeat;

static inline coplace_heartbeat *coplace_heartbeat_open(const char *path) {
    void *mapped;
    int file;
    if (path == NULL || *path == '\0')
        return NULL;
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return NULL;
    mapped = MAP_FAILED;
    if (ftruncate(file, COPLACE_HEARTBEAT_BYTES) == 0)
        mapped = mmap(NULL, COPLACE_HEARTBEAT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        return NULL;
    memcpy(mapped, "COPLACE1", 8);
    return (coplace_heartbeat *)mapped;
}

/* Slots may be shared: the addition is atomic. */
static inline void coplace_beat(coplace_heartbeat *beats, unsigned slot, uint64_t count) {
    if (beats != NULL)
        __atomic_fetch_add(&beats->slots[slot % COPLACE_HEARTBEAT_SLOTS].count, count,
                           __ATOMIC_RELAXED);
}

#endif
