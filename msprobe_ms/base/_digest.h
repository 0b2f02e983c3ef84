/* CRC-32C (Castagnoli, RFC 3720), with the instruction of the processor if available. Included by `_statistic.c`.
 *
 * The instruction processes 8 bytes per cycle with a latency of three cycles, so three stretches of equal length are
 * processed in parallel. Appending a stretch of zeros of known length is a linear map of the 32 bits of the state, given by
 * four tables, one per byte; it combines the three results. Without the instruction, eight tables process eight bytes at a
 * time.
 */

enum { STRETCHES = 4 };
/* Lengths in bytes, multiples of 8: three stretches fill a block of the passes, half a block, a quarter, or are short. */
static const size_t STRETCH[STRETCHES] = {5456, 2728, 1360, 168};

static const uint32_t POLYNOMIAL = 0x82f63b78; /* reflected: the lowest bit is the highest power */

static uint32_t behind[8][256];              /* state of a byte followed by 0 to 7 zero bytes */
static uint32_t beyond[STRETCHES][4][256];   /* each byte of a state followed by a stretch of zeros */

typedef uint32_t (*crc32c_pass)(uint32_t, const uint8_t *, size_t);

static uint32_t plain_bytes(uint32_t state, const uint8_t *p, size_t n)
{
    for (; n > 0; n--)
        state = state >> 8 ^ behind[0][(state ^ *p++) & 0xff];
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
            state ^= behind[7 - k][x >> 8 * k & 0xff];
    }
#endif
    return plain_bytes(state, p, n);
}

/* Combine the states of two stretches; `next` is the state of the second one, starting at 0. */
static inline uint32_t after(int which, uint32_t state, uint32_t next)
{
    const uint32_t(*table)[256] = beyond[which];
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
#define EIGHT_BYTES(state, x) _mm_crc32_u64(state, x)
#define ONE_BYTE(state, x) _mm_crc32_u8(state, x)
BY_INSTRUCTION(crc32c_quick, __attribute__((target("sse4.2"))), EIGHT_BYTES, ONE_BYTE)
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

static crc32c_pass crc32c_state = crc32c_plain;

/* Return the state after n zero bytes. */
static uint32_t with_zeros(uint32_t state, size_t n)
{
    for (; n > 0; n--)
        state = state >> 8 ^ behind[0][state & 0xff];
    return state;
}

static void make_crc32c_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
        behind[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            behind[k][byte] = with_zeros(behind[k - 1][byte], 1);
    for (int which = 0; which < STRETCHES; which++)
        for (int k = 0; k < 4; k++) {
            uint32_t of_bit[8];
            for (int bit = 0; bit < 8; bit++)
                of_bit[bit] = with_zeros((uint32_t)1 << (8 * k + bit), STRETCH[which]);
            for (int byte = 0; byte < 256; byte++) {
                uint32_t sum = 0;
                for (int bit = 0; bit < 8; bit++)
                    sum ^= byte >> bit & 1 ? of_bit[bit] : 0;
                beyond[which][k][byte] = sum;
            }
        }
}

/* Three stretches of a block, which are processed in parallel with its statistics (these do not use the unit of the CRC
 * instruction): their states, the position in the first one, and the remaining number of 8-byte words. */
struct strands {
    uint64_t a, b, c;
    const uint8_t *p;
    size_t length, left;
};

/* The digest of a tensor, computed block by block together with its statistics. */
struct digest {
    int is_wanted;
    uint32_t crc;
    struct strands strands;
};

static inline void digest_block(struct digest *digest, const void *p, size_t bytes)
{
    if (digest->is_wanted)
        digest->crc = ~crc32c_state(~digest->crc, p, bytes);
}

#if defined(__x86_64__)
/* Process `n` words of each stretch, if that many remain. A macro, to use the instruction set of the caller. */
#define GO_ON(s, n)                                                                                                    \
    if ((s).left >= (n)) {                                                                                             \
        uint64_t x, y, z;                                                                                              \
        for (int step = 0; step < (n); step++) {                                                                       \
            memcpy(&x, (s).p, 8), memcpy(&y, (s).p + (s).length, 8), memcpy(&z, (s).p + 2 * (s).length, 8);            \
            (s).a = EIGHT_BYTES((s).a, x), (s).b = EIGHT_BYTES((s).b, y), (s).c = EIGHT_BYTES((s).c, z);               \
            (s).p += 8;                                                                                                \
        }                                                                                                              \
        (s).left -= (n);                                                                                               \
    }

static inline void begin_block(struct digest *digest, const void *p, size_t bytes)
{
    size_t length = digest->is_wanted && crc32c_state == crc32c_quick && bytes >= 3 * STRETCH[0] ? STRETCH[0] : 0;
    digest->strands = (struct strands){~digest->crc, 0, 0, p, length, length / 8};
}

__attribute__((target("sse4.2"))) static uint32_t end_strands(struct strands *s)
{
    while (s->left)
        GO_ON(*s, 1)
    return after(0, after(0, (uint32_t)s->a, (uint32_t)s->b), (uint32_t)s->c);
}

static inline void end_block(struct digest *digest, const void *p, size_t bytes)
{
    size_t taken = 3 * digest->strands.length;
    if (taken)
        digest->crc = ~end_strands(&digest->strands);
    digest_block(digest, (const uint8_t *)p + taken, bytes - taken);
}
#else
#define begin_block(digest, p, bytes) ((void)0)
#define end_block(digest, p, bytes) digest_block(digest, p, bytes)
#endif
