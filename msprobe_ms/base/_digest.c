/* CRC-32C (Castagnoli, RFC 3720), with the instruction of the processor if available.
 *
 * The instruction processes 8 bytes per cycle with a latency of three cycles, so three stretches of equal length are
 * processed in parallel. Appending a stretch of zeros of known length is a linear map of the 32 bits of the state, given by
 * four tables, one per byte; it combines the three results. Without the instruction, eight tables process eight bytes at a
 * time.
 */

#include "_digest.h"

#include <string.h>

enum { STRETCHES = 4 };
/* Lengths in bytes, multiples of 8: three stretches fill a block of the passes, half a block, a quarter, or are short. */
static const size_t STRETCH[STRETCHES] = {5456, 2728, 1360, 168};

static const uint32_t POLYNOMIAL = 0x82f63b78; /* reflected: the lowest bit is the highest power */

static uint32_t of_byte[8][256];                /* state of a byte followed by 0 to 7 zero bytes */
static uint32_t of_state_byte[STRETCHES][4][256]; /* each byte of a state followed by a stretch of zeros */

static uint32_t plain_bytes(uint32_t state, const uint8_t *p, size_t n)
{
    for (; n > 0; n--)
        state = state >> 8 ^ of_byte[0][(state ^ *p++) & 0xff];
    return state;
}

static uint32_t crc32c_plain(uint32_t state, const uint8_t *p, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        x ^= state;
        state = 0;
        for (int k = 0; k < 8; k++)
            state ^= of_byte[7 - k][x >> 8 * k & 0xff];
    }
#endif
    return plain_bytes(state, p, n);
}

/* Combine the states of two stretches; `next` is the state of the second one, starting at 0. */
static inline uint32_t after(int which, uint32_t state, uint32_t next)
{
    const uint32_t(*table)[256] = of_state_byte[which];
    return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^ table[2][state >> 16 & 0xff] ^ table[3][state >> 24] ^ next;
}

/* Implementation with the instruction: `EIGHT(state, x)` processes 8 bytes, `ONE(state, x)` one. */
#define BY_INSTRUCTION(name, TARGET, EIGHT, ONE)                                                                       \
    TARGET static uint32_t name(uint32_t state, const uint8_t *p, size_t n)                                            \
    {                                                                                                                  \
        for (int which = 0; which < STRETCHES; which++)                                                                \
            for (size_t length = STRETCH[which]; n >= 3 * length; p += 3 * length, n -= 3 * length) {                  \
                uint64_t a = state, b = 0, c = 0, x, y, z;                                                             \
                for (size_t i = 0; i < length; i += 8) {                                                               \
                    memcpy(&x, p + i, 8), memcpy(&y, p + length + i, 8), memcpy(&z, p + 2 * length + i, 8);            \
                    a = EIGHT(a, x), b = EIGHT(b, y), c = EIGHT(c, z);                                                 \
                }                                                                                                      \
                state = after(which, after(which, (uint32_t)a, (uint32_t)b), (uint32_t)c);                             \
            }                                                                                                          \
        uint64_t wide = state, x;                                                                                      \
        for (; n >= 8; p += 8, n -= 8)                                                                                 \
            memcpy(&x, p, 8), wide = EIGHT(wide, x);                                                                   \
        for (state = (uint32_t)wide; n > 0; n--)                                                                       \
            state = ONE(state, *p++);                                                                                  \
        return state;                                                                                                  \
    }

#if defined(__x86_64__)
#define ONE_BYTE(state, x) _mm_crc32_u8(state, x)
BY_INSTRUCTION(crc32c_quick, __attribute__((target("sse4.2"))), CRC32C_OF_EIGHT, ONE_BYTE)
static int has_instruction(void) { return __builtin_cpu_supports("sse4.2") != 0; }
#elif defined(__aarch64__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <sys/auxv.h>
/* In assembly, because gcc and clang have different names for the instruction set of the intrinsics. */
static inline uint64_t eight_bytes(uint64_t state, uint64_t x)
{
    uint32_t next;
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %2" : "=r"(next) : "r"((uint32_t)state), "r"(x));
    return next;
}
static inline uint32_t one_byte(uint32_t state, uint32_t x)
{
    uint32_t next;
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2" : "=r"(next) : "r"(state), "r"(x));
    return next;
}
BY_INSTRUCTION(crc32c_quick, , eight_bytes, one_byte)
static int has_instruction(void) { return (getauxval(AT_HWCAP) & 1 << 7) != 0; } /* HWCAP_CRC32 */
#else
#define crc32c_quick crc32c_plain
static int has_instruction(void) { return 0; }
#endif

uint32_t (*crc32c_state)(uint32_t state, const uint8_t *p, size_t n) = crc32c_plain;

void choose_crc32c(int is_instruction_allowed)
{
    crc32c_state = is_instruction_allowed && has_instruction() ? crc32c_quick : crc32c_plain;
}

/* Return the state after n zero bytes. */
static uint32_t with_zeros(uint32_t state, size_t n)
{
    for (; n > 0; n--)
        state = state >> 8 ^ of_byte[0][state & 0xff];
    return state;
}

void make_crc32c_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
        of_byte[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            of_byte[k][byte] = with_zeros(of_byte[k - 1][byte], 1);
    for (int which = 0; which < STRETCHES; which++)
        for (int k = 0; k < 4; k++) {
            uint32_t of_bit[8];
            for (int bit = 0; bit < 8; bit++)
                of_bit[bit] = with_zeros((uint32_t)1 << (8 * k + bit), STRETCH[which]);
            for (int byte = 0; byte < 256; byte++) {
                uint32_t sum = 0;
                for (int bit = 0; bit < 8; bit++)
                    sum ^= byte >> bit & 1 ? of_bit[bit] : 0;
                of_state_byte[which][k][byte] = sum;
            }
        }
}

void digest_block(struct digest *digest, const void *p, size_t bytes)
{
    if (digest->is_wanted)
        digest->crc = ~crc32c_state(~digest->crc, p, bytes);
}

#if defined(__x86_64__)
void begin_digest_of_block(struct digest *digest, const void *p, size_t bytes)
{
    size_t length = digest->is_wanted && crc32c_state == crc32c_quick && bytes >= 3 * STRETCH[0] ? STRETCH[0] : 0;
    digest->stretches = (struct stretches){~digest->crc, 0, 0, p, length, length / 8};
}

__attribute__((target("sse4.2"))) static uint32_t end_stretches(struct stretches *s)
{
    while (s->left)
        DIGEST_STEPS(*s, 1)
    return after(0, after(0, (uint32_t)s->a, (uint32_t)s->b), (uint32_t)s->c);
}

void end_digest_of_block(struct digest *digest, const void *p, size_t bytes)
{
    size_t taken = 3 * digest->stretches.length;
    if (taken)
        digest->crc = ~end_stretches(&digest->stretches);
    digest_block(digest, (const uint8_t *)p + taken, bytes - taken);
}
#else
void begin_digest_of_block(struct digest *digest, const void *p, size_t bytes)
{
    (void)digest, (void)p, (void)bytes;
}

void end_digest_of_block(struct digest *digest, const void *p, size_t bytes) { digest_block(digest, p, bytes); }
#endif
