/* CRC-32C (Castagnoli, RFC 3720) of the bytes of a tensor; see _digest.c. */

#ifndef MSPROBE_DIGEST_H
#define MSPROBE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Three stretches of a block, which are processed in parallel with its statistics (these do not use the unit of the CRC
 * instruction): their states, the position in the first one, and the remaining number of 8-byte words. */
struct stretches {
    uint64_t a, b, c;
    const uint8_t *p;
    size_t length, left;
};

/* The digest of a tensor, computed block by block together with its statistics. */
struct digest {
    int is_wanted;
    uint32_t crc;
    struct stretches stretches;
};

/* Return the state after n more bytes; the CRC is its complement. Set by `choose_crc32c`. */
extern uint32_t (*crc32c_state)(uint32_t state, const uint8_t *p, size_t n);

/* Make the tables; call this once before all other functions. */
void make_crc32c_tables(void);

/* Use the instruction of the processor if it has one and it is allowed, otherwise the tables. */
void choose_crc32c(int is_instruction_allowed);

/* Continue a digest with a block. */
void digest_block(struct digest *digest, const void *p, size_t bytes);

/* Continue a digest with a block in steps: begin, `DIGEST_STEPS` any number of times, end. */
void begin_digest_of_block(struct digest *digest, const void *p, size_t bytes);
void end_digest_of_block(struct digest *digest, const void *p, size_t bytes);

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define CRC32C_OF_EIGHT(state, x) _mm_crc32_u64(state, x)
/* Process `n` words of each stretch `s`, if that many remain. A macro, to use the instruction set of the caller. */
#define DIGEST_STEPS(s, n)                                                                                             \
    if ((s).left >= (n)) {                                                                                             \
        uint64_t x, y, z;                                                                                              \
        for (int step = 0; step < (n); step++) {                                                                       \
            memcpy(&x, (s).p, 8), memcpy(&y, (s).p + (s).length, 8), memcpy(&z, (s).p + 2 * (s).length, 8);            \
            (s).a = CRC32C_OF_EIGHT((s).a, x), (s).b = CRC32C_OF_EIGHT((s).b, y), (s).c = CRC32C_OF_EIGHT((s).c, z);   \
            (s).p += 8;                                                                                                \
        }                                                                                                              \
        (s).left -= (n);                                                                                               \
    }
#endif

#endif
