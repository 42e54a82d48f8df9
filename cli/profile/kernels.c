/* Small kernels of different memory behaviour: kernels KIND BEATS CORES...
 * One thread a core that is named, pinned to it, each for so many beats; 0: until it is ended.
 * Beats are counted where COPLACE_HEARTBEATS names a file. `bubble` and `reporter` are what
 * Bubble-Up (Mars et al., 2011) presses with and is pressed by: `bubble:MIB` streams through a buffer of
 * so many MiB. */
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
static uint64_t wanted;

/* One more beat of a thread; whether it shall go on. */
static int goes_on(int slot, uint64_t *done) {
    coplace_beat(beats, slot, 1);
    return wanted == 0 || ++*done < wanted;
}

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Each beat is work of the same size, of some ten microseconds. */
static void triad(int slot) {
    uint64_t done = 0;
    size_t n = 1u << 20, at = 0, step = 4096;
    double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
    for (size_t i = 0; i < n; i++) a[i] = b[i] = c[i] = (double)i;
    do {
        for (size_t i = at; i < at + step; i++) a[i] = b[i] + 3.0 * c[i];
        at = (at + step) % n;
    } while (goes_on(slot, &done));
}

static void matrix(int slot) {
    enum { N = 32 };
    static __thread double a[N][N], b[N][N], c[N][N];
    uint64_t done = 0;
    for (int i = 0; i < N * N; i++) a[i / N][i % N] = b[i / N][i % N] = i % 7;
    do {
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    } while (goes_on(slot, &done));
}

static void gather_from(int slot, size_t n) {
    uint64_t done = 0;
    uint32_t *table = malloc(n * 4);
    uint64_t state = 88172645463325252ull + (uint64_t)slot, sum = 0;
    for (size_t i = 0; i < n; i++) table[i] = (uint32_t)i;
    do {
        for (int i = 0; i < 1000; i++) sum += table[draw(&state) % n];
        if (sum == 1) puts("");
    } while (goes_on(slot, &done));
}

static void gather(int slot) { gather_from(slot, 8u << 20); }

static void reporter(int slot) { gather_from(slot, 1u << 19); }

static int by_value(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void sort(int slot) {
    enum { N = 500 };
    uint32_t values[N];
    uint64_t done = 0;
    uint64_t state = 88172645463325252ull + (uint64_t)slot;
    do {
        for (int i = 0; i < N; i++) values[i] = (uint32_t)draw(&state);
        qsort(values, N, sizeof *values, by_value);
    } while (goes_on(slot, &done));
}

/* The inner loop of LZ77: the longest match by a hash of three bytes. */
static void compress(int slot) {
    uint64_t done = 0;
    size_t n = 8u << 20, at = 0;
    uint8_t *text = malloc(n);
    uint32_t *last = calloc(1u << 16, 4);
    uint64_t state = 88172645463325252ull + (uint64_t)slot, matched = 0;
    for (size_t i = 0; i < n; i++) text[i] = "abracadabra etaoin"[draw(&state) % 18];
    do {
        for (size_t i = at; i < at + 2048; i++) {
            uint32_t hash = (text[i] | text[i + 1] << 8 | text[i + 2] << 16) * 2654435761u >> 16;
            size_t found = last[hash], length = 0;
            while (length < 32 && text[found + length] == text[i + length]) length++;
            matched += length;
            last[hash] = (uint32_t)i;
        }
        if (matched == 1) puts("");
        at = (at + 2048) % (n - 4096);
    } while (goes_on(slot, &done));
}

/* Pages of a file of its own, written and read through the page cache. */
static void pages(int slot) {
    enum { BLOCK = 65536, BLOCKS = 512 };
    char name[] = "kernel-pages-XXXXXX", *block = malloc(BLOCK);
    int file = mkstemp(name);
    unlink(name);
    memset(block, slot, BLOCK);
    uint64_t done = 0;
    do {
        off_t place = (off_t)(done % BLOCKS) * BLOCK;
        if (pwrite(file, block, BLOCK, place) != BLOCK || pread(file, block, BLOCK, place) != BLOCK)
            exit(1);
    } while (goes_on(slot, &done));
}

/* Blocks that have to reach the disk. */
static void disk(int slot) {
    enum { BLOCK = 65536 };
    char name[] = "kernel-disk-XXXXXX", *block = calloc(1, BLOCK);
    int file = mkstemp(name);
    unlink(name);
    uint64_t done = 0;
    do {
        if (pwrite(file, block, BLOCK, 0) != BLOCK || fdatasync(file) != 0) exit(1);
    } while (goes_on(slot, &done));
}

/* One row of a five-point stencil over a grid of 32 MiB. */
static void stencil(int slot) {
    enum { N = 2048 };
    double *from = calloc(N * N, 8), *to = calloc(N * N, 8);
    uint64_t done = 0;
    size_t row = 1;
    do {
        double *a = from + row * N, *b = to + row * N;
        for (int i = 1; i < N - 1; i++) b[i] = 0.2 * (a[i] + a[i - 1] + a[i + 1] + a[i - N] + a[i + N]);
        if (++row == N - 1) {
            double *other = from;
            from = to, to = other, row = 1;
        }
    } while (goes_on(slot, &done));
}

/* A chain through memory, each step of which waits for the one before. */
static void chase(int slot) {
    size_t n = 2u << 20;
    uint32_t *next = malloc(n * 4), at = 0;
    uint64_t done = 0, state = 88172645463325252ull + (uint64_t)slot;
    for (size_t i = 0; i < n; i++) next[i] = (uint32_t)i;
    for (size_t i = n - 1; i > 0; i--) { /* one cycle (Sattolo) */
        size_t j = draw(&state) % i;
        uint32_t kept = next[i];
        next[i] = next[j], next[j] = kept;
    }
    do {
        for (int i = 0; i < 300; i++) at = next[at];
        if (at == n) puts("");
    } while (goes_on(slot, &done));
}

/* Points of the Mandelbrot set: arithmetic alone. */
static void mandel(int slot) {
    uint64_t done = 0, count = 0;
    do {
        double x = 0, y = 0, c = -0.7 + (double)(done % 100) * 1e-4;
        for (int i = 0; i < 3000; i++) {
            double kept = x * x - y * y + c;
            y = 2 * x * y + 0.27;
            x = kept;
            if (x * x + y * y > 4) x = y = 0, count++;
        }
        if (count == 1) puts("");
    } while (goes_on(slot, &done));
}

/* Butterflies of a transform of 2^18 points of one precision, a stage at a time, in slices. */
static void transform(int slot) {
    size_t n = 1u << 18, half = 1, at = 0;
    float *re = calloc(n, 4), *im = calloc(n, 4);
    uint64_t done = 0;
    for (size_t i = 0; i < n; i++) re[i] = (float)(i % 17);
    do {
        for (size_t k = 0; k < 2048; k++, at++) {
            size_t low = at / half * 2 * half + at % half, high = low + half;
            float r = re[high] * 0.8f - im[high] * 0.6f, i = re[high] * 0.6f + im[high] * 0.8f;
            re[high] = 0.5f * (re[low] - r), im[high] = 0.5f * (im[low] - i);
            re[low] = 0.5f * (re[low] + r), im[low] = 0.5f * (im[low] + i);
        }
        if (at == n / 2) at = 0, half = half * 2 == n ? 1 : half * 2;
    } while (goes_on(slot, &done));
}

/* Words counted in a hash table with open addressing. */
static void words(int slot) {
    size_t n = 1u << 20;
    uint64_t *keys = calloc(n, 8), done = 0, state = 88172645463325252ull + (uint64_t)slot;
    uint32_t *counts = calloc(n, 4);
    do {
        for (int i = 0; i < 500; i++) {
            uint64_t key = draw(&state) % 400000 + 1;
            size_t place = key * 0x9E3779B97F4A7C15ull >> 44;
            while (keys[place] != 0 && keys[place] != key) place = (place + 1) % n;
            keys[place] = key, counts[place]++;
        }
    } while (goes_on(slot, &done));
}

static void bubble(int slot) {
    size_t n = (size_t)atol(strchr(kind, ':') + 1) << 17, at = 0, step = 4096;
    double *a = malloc(n * 8);
    uint64_t done = 0;
    for (size_t i = 0; i < n; i++) a[i] = (double)i;
    do {
        for (size_t i = at; i < at + step; i++) a[i] = a[i] * 0.5 + 1.0;
        at = (at + step) % n;
    } while (goes_on(slot, &done));
}

static const struct {
    const char *name;
    void (*work)(int slot);
} kernels[] = {
    {"triad", triad},   {"matrix", matrix},       {"gather", gather}, {"sort", sort},
    {"compress", compress}, {"pages", pages},     {"disk", disk},     {"stencil", stencil},
    {"chase", chase},   {"mandel", mandel},       {"transform", transform}, {"words", words},
    {"bubble:", bubble}, {"reporter", reporter},
};

static void *run(void *given) {
    long slot = ((long *)given)[0], core = ((long *)given)[1];
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) exit(1);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strncmp(kind, kernels[i].name, strlen(kernels[i].name))) {
            kernels[i].work((int)slot);
            return NULL;
        }
    fprintf(stderr, "no kernel %s\n", kind);
    exit(2);
}

int main(int argc, char **argv) {
    enum { MOST = 1024 };
    pthread_t threads[MOST];
    if (argc < 4 || argc - 3 > MOST) return 2;
    beats = coplace_heartbeat_open(getenv("COPLACE_HEARTBEATS"));
    kind = argv[1];
    wanted = strtoull(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++) {
        long *given = malloc(2 * sizeof *given);
        given[0] = i - 3;
        given[1] = atol(argv[i]);
        pthread_create(&threads[i - 3], NULL, run, given);
    }
    for (int i = 3; i < argc; i++) pthread_join(threads[i - 3], NULL);
    return 0;
}
