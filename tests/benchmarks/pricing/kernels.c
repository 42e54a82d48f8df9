/* Small kernels that run until they are ended, and count heartbeats: kernels KIND CORES...
 * One thread a core that is named, pinned to it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coplace_heartbeat.h"

static coplace_heartbeat *beats;
static const char *kind;

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Each beat is work of the same size, of some ten microseconds. */
static void triad(int slot) {
    size_t n = 4u << 20, at = 0, step = 4096;
    double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
    for (size_t i = 0; i < n; i++) a[i] = b[i] = c[i] = (double)i;
    for (;; at = (at + step) % n) {
        for (size_t i = at; i < at + step; i++) a[i] = b[i] + 3.0 * c[i];
        coplace_beat(beats, slot, 1);
    }
}

static void matrix(int slot) {
    enum { N = 32 };
    static __thread double a[N][N], b[N][N], c[N][N];
    for (int i = 0; i < N * N; i++) a[i / N][i % N] = b[i / N][i % N] = i % 7;
    for (;;) {
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
        coplace_beat(beats, slot, 1);
    }
}

static void gather(int slot) {
    size_t n = 16u << 20;
    uint32_t *table = malloc(n * 4);
    uint64_t state = 88172645463325252ull + (uint64_t)slot, sum = 0;
    for (size_t i = 0; i < n; i++) table[i] = (uint32_t)i;
    for (;;) {
        for (int i = 0; i < 1000; i++) sum += table[draw(&state) % n];
        if (sum == 1) puts("");
        coplace_beat(beats, slot, 1);
    }
}

static int by_value(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void sort(int slot) {
    enum { N = 500 };
    uint32_t values[N];
    uint64_t state = 88172645463325252ull + (uint64_t)slot;
    for (;;) {
        for (int i = 0; i < N; i++) values[i] = (uint32_t)draw(&state);
        qsort(values, N, sizeof *values, by_value);
        coplace_beat(beats, slot, 1);
    }
}

/* The inner loop of LZ77: the longest match by a hash of three bytes. */
static void compress(int slot) {
    size_t n = 8u << 20, at = 0;
    uint8_t *text = malloc(n);
    uint32_t *last = calloc(1u << 16, 4);
    uint64_t state = 88172645463325252ull + (uint64_t)slot, matched = 0;
    for (size_t i = 0; i < n; i++) text[i] = "abracadabra etaoin"[draw(&state) % 18];
    for (;; at = (at + 2048) % (n - 4096)) {
        for (size_t i = at; i < at + 2048; i++) {
            uint32_t hash = (text[i] | text[i + 1] << 8 | text[i + 2] << 16) * 2654435761u >> 16;
            size_t found = last[hash], length = 0;
            while (length < 32 && text[found + length] == text[i + length]) length++;
            matched += length;
            last[hash] = (uint32_t)i;
        }
        if (matched == 1) puts("");
        coplace_beat(beats, slot, 1);
    }
}

/* Pages of a file of its own, written and read through the page cache. */
static void pages(int slot) {
    enum { BLOCK = 65536, BLOCKS = 512 };
    char name[] = "kernel-pages-XXXXXX", *block = malloc(BLOCK);
    int file = mkstemp(name);
    unlink(name);
    memset(block, slot, BLOCK);
    for (uint64_t i = 0;; i++) {
        off_t place = (off_t)(i % BLOCKS) * BLOCK;
        if (pwrite(file, block, BLOCK, place) != BLOCK || pread(file, block, BLOCK, place) != BLOCK)
            exit(1);
        coplace_beat(beats, slot, 1);
    }
}

static void *run(void *given) {
    long slot = ((long *)given)[0], core = ((long *)given)[1];
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) exit(1);
    if (!strcmp(kind, "triad")) triad(slot);
    if (!strcmp(kind, "matrix")) matrix(slot);
    if (!strcmp(kind, "gather")) gather(slot);
    if (!strcmp(kind, "sort")) sort(slot);
    if (!strcmp(kind, "compress")) compress(slot);
    if (!strcmp(kind, "pages")) pages(slot);
    fprintf(stderr, "no kernel %s\n", kind);
    exit(2);
}

int main(int argc, char **argv) {
    pthread_t thread;
    beats = coplace_heartbeat_open(getenv("COPLACE_HEARTBEATS"));
    if (argc < 3 || beats == NULL) return 2;
    kind = argv[1];
    for (int i = 2; i < argc; i++) {
        long *given = malloc(2 * sizeof *given);
        given[0] = i - 2;
        given[1] = atol(argv[i]);
        pthread_create(&thread, NULL, run, given);
    }
    pthread_join(thread, NULL);
    return 0;
}
