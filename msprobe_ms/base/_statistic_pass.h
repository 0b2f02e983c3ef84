/* Passes over a tensor, one for each dtype, compiled for each instruction set.
 *
 * `_statistic.c` includes this file for each instruction set and defines:
 *   NAME(x)    the name of x for this instruction set
 *   TARGET     the attribute that selects it
 *   VECTOR     bytes of a register
 * and, where compilers do not generate a suitable instruction:
 *   MAX_float, MIN_float, MAX_double, MIN_double, MIN_int   (x, best): lane by lane; `best` where x is NaN
 *   WIDEN(from)        half a register of floats to doubles
 *   HALVES(from, to)   VECTOR / 4 values of float16 to float
  *   STRANDS(s, n)      n steps of the digest of the block (`_digest.h`), in parallel with the arithmetic
 *
  * Data is processed in blocks of the size of the first-level cache. Narrow types are first decoded to float or double
  * without loss.
 */

#define LANES (VECTOR / 8)

typedef double NAME(doubles) __attribute__((vector_size(VECTOR)));
typedef int64_t NAME(words) __attribute__((vector_size(VECTOR)));
typedef int32_t NAME(ints) __attribute__((vector_size(VECTOR)));
typedef uint32_t NAME(bits) __attribute__((vector_size(VECTOR)));
typedef double NAME(some_doubles) __attribute__((vector_size(VECTOR), aligned(8), may_alias));
typedef float NAME(some_floats) __attribute__((vector_size(VECTOR / 2), aligned(4), may_alias));
typedef int64_t NAME(some_words) __attribute__((vector_size(VECTOR), aligned(8), may_alias));

#define SELECT(is_better, x, best)                                                                                     \
    ((__typeof__(best))(((NAME(words))(x) & (NAME(words))(is_better)) | ((NAME(words))(best) & ~(NAME(words))(is_better))))
#ifndef MAX_float
#define MAX_float(x, best) SELECT((x) > (best), x, best)
#define MIN_float(x, best) SELECT((x) < (best), x, best)
#define MAX_double(x, best) SELECT((x) > (best), x, best)
#define MIN_double(x, best) SELECT((x) < (best), x, best)
#endif
#ifndef STRANDS
#define STRANDS(strands, n)
#endif
#ifndef MIN_int
#define MIN_int(x, best) SELECT((x) < (best), x, best)
#endif
#ifndef WIDEN
#define WIDEN(from) __builtin_convertvector(*(const NAME(some_floats) *)(from), NAME(doubles))
#endif
#define LESSER(x, best) ((NAME(ints))MIN_int(x, best))

#define T float
#define OF(x) NAME(x##_float)
#define LOAD(from) WIDEN(from)
#define COUNTS NAME(ints)
#define BEST(more, x, best) more##_float(x, best)
#include "_statistic_block.h"

#define T double
#define OF(x) NAME(x##_double)
#define LOAD(from) (*(const NAME(some_doubles) *)(from))
#define COUNTS NAME(words)
#define BEST(more, x, best) more##_double(x, best)
#include "_statistic_block.h"

TARGET static const float *NAME(decode_float16)(const uint16_t *p, size_t n, float *to)
{
    size_t i = 0;
#ifdef HALVES
    for (; i + VECTOR / 4 <= n; i += VECTOR / 4)
        HALVES(p + i, to + i);
#endif
    for (; i < n; i++) {
        /* The bits of a float16, shifted into a float, are too small by 2^112. Multiplication also normalizes subnormals. */
        union { uint32_t bits; float value; } half = {(uint32_t)(p[i] & 0x7fff) << 13};
        half.value *= 0x1p112f;
        half.bits |= (half.value >= 65536.0f ? 0x7f800000 : 0) | (uint32_t)(p[i] & 0x8000) << 16;
        to[i] = half.value;
    }
    return to;
}

TARGET static const float *NAME(decode_bfloat16)(const uint16_t *p, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++) {
        union { uint32_t bits; float value; } upper_half = {(uint32_t)p[i] << 16};
        to[i] = upper_half.value;
    }
    return to;
}

#define DECODE(name, source, T)                                                                                        \
    TARGET static const T *NAME(decode_##name)(const source *p, size_t n, T *to)                                       \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            to[i] = (T)p[i];                                                                                           \
        return to;                                                                                                     \
    }
DECODE(int8, int8_t, float)
DECODE(uint8, uint8_t, float)
DECODE(int16, int16_t, float)
DECODE(uint16, uint16_t, float)
DECODE(int32, int32_t, double)
DECODE(uint32, uint32_t, double)
DECODE(int64, int64_t, double)
DECODE(uint64, uint64_t, double)

/* The next block is prefetched while this one is computed, unless it is decoded first. `from`: the bytes of the digest,
 * `p` for the tensor, or `block` for widened elements. */
#define PASS(name, source, T, decode, like, from)                                                                      \
    TARGET static void NAME(name)(const void *data, size_t n, struct floats *all)                                      \
    {                                                                                                                  \
        T buffer[BLOCK / sizeof(T)];                                                                                   \
        for (const source *p = data; n > 0;) {                                                                         \
            size_t m = n < BLOCK / sizeof(T) ? n : BLOCK / sizeof(T);                                                  \
            const T *block = decode(p, m, buffer);                                                                     \
            begin_block(&all->digest, from, m * sizeof *from);                                                         \
            NAME(add_##T)(all, block, m, like, block == buffer ? block : block + m);                                   \
            end_block(&all->digest, from, m * sizeof *from);                                                           \
            p += m, n -= m;                                                                                            \
        }                                                                                                              \
    }
#define AS_IT_IS(p, n, buffer) ((void)(buffer), (p))
PASS(float64, double, double, AS_IT_IS, 0, p)
PASS(float32, float, float, AS_IT_IS, LOOK, p)
PASS(bfloat16, uint16_t, float, NAME(decode_bfloat16), LOOK, block)
PASS(float16, uint16_t, float, NAME(decode_float16), 1, p) /* all float16 are multiples of 2^-24 below 2^16 */
PASS(int8, int8_t, float, NAME(decode_int8), 1, p)
PASS(uint8, uint8_t, float, NAME(decode_uint8), 1, p)
PASS(int16, int16_t, float, NAME(decode_int16), 1, p)
PASS(uint16, uint16_t, float, NAME(decode_uint16), 1, p)
PASS(int32, int32_t, double, NAME(decode_int32), 1, p)
PASS(uint32, uint32_t, double, NAME(decode_uint32), 1, p)

/* Passes of the monitor. */
#define BRIEF(name, source, T, decode)                                                                                 \
    TARGET static void NAME(brief_##name)(const void *data, size_t n, double eps, struct brief *all)                   \
    {                                                                                                                  \
        T buffer[BLOCK / sizeof(T)], limit = limit_##T(eps);                                                           \
        for (const source *p = data; n > 0;) {                                                                         \
            size_t m = n < BLOCK / sizeof(T) ? n : BLOCK / sizeof(T);                                                  \
            const T *block = decode(p, m, buffer);                                                                     \
            NAME(brief_block_##T)(all, block, m, limit, (const char *)(block == buffer ? block : block + m));          \
            p += m, n -= m;                                                                                            \
        }                                                                                                              \
    }
BRIEF(float64, double, double, AS_IT_IS)
BRIEF(float32, float, float, AS_IT_IS)
BRIEF(bfloat16, uint16_t, float, NAME(decode_bfloat16))
BRIEF(float16, uint16_t, float, NAME(decode_float16))
BRIEF(int8, int8_t, float, NAME(decode_int8))
BRIEF(uint8, uint8_t, float, NAME(decode_uint8))
BRIEF(int16, int16_t, float, NAME(decode_int16))
BRIEF(uint16, uint16_t, float, NAME(decode_uint16))
BRIEF(int32, int32_t, double, NAME(decode_int32))
BRIEF(uint32, uint32_t, double, NAME(decode_uint32))
BRIEF(int64, int64_t, double, NAME(decode_int64))
BRIEF(uint64, uint64_t, double, NAME(decode_uint64))

/* How many magnitudes are not below a limit. */
#define AT_LEAST(name, source, T, decode, magnitude, COUNT)                                                            \
    TARGET static int64_t NAME(at_least_##name)(const void *data, size_t n, double limit)                              \
    {                                                                                                                  \
        T buffer[BLOCK / sizeof(T)], least = least_##T(limit);                                                         \
        int64_t found = 0;                                                                                             \
        for (const source *p = data; n > 0;) {                                                                         \
            size_t m = n < BLOCK / sizeof(T) ? n : BLOCK / sizeof(T);                                                  \
            const T *block = decode(p, m, buffer);                                                                     \
            COUNT of_block = 0;                                                                                        \
            for (size_t i = 0; i < m; i++)                                                                             \
                of_block += magnitude(block[i]) >= least;                                                              \
            found += of_block;                                                                                         \
            p += m, n -= m;                                                                                            \
        }                                                                                                              \
        return found;                                                                                                  \
    }
AT_LEAST(float64, double, double, AS_IT_IS, fabs, int64_t)
AT_LEAST(float32, float, float, AS_IT_IS, fabsf, int32_t)
AT_LEAST(bfloat16, uint16_t, float, NAME(decode_bfloat16), fabsf, int32_t)
AT_LEAST(float16, uint16_t, float, NAME(decode_float16), fabsf, int32_t)
AT_LEAST(int8, int8_t, float, NAME(decode_int8), fabsf, int32_t)
AT_LEAST(uint8, uint8_t, float, NAME(decode_uint8), fabsf, int32_t)
AT_LEAST(int16, int16_t, float, NAME(decode_int16), fabsf, int32_t)
AT_LEAST(uint16, uint16_t, float, NAME(decode_uint16), fabsf, int32_t)
AT_LEAST(int32, int32_t, double, NAME(decode_int32), fabs, int64_t)
AT_LEAST(uint32, uint32_t, double, NAME(decode_uint32), fabs, int64_t)
AT_LEAST(int64, int64_t, double, NAME(decode_int64), fabs, int64_t)
AT_LEAST(uint64, uint64_t, double, NAME(decode_uint64), fabs, int64_t)

/* double cannot represent all int64, so extremes and sum are integers. */
TARGET static void NAME(int64)(const int64_t *p, size_t n, struct int64s *all)
{
    while (n > 0) {
        size_t m = n < BLOCK / 8 ? n : BLOCK / 8, i = 0;
        int64_t top = all->top, bottom = all->bottom, upper = 0, lower = 0;
        for (size_t j = 0; j < m; j++) {
            top = p[j] > top ? p[j] : top;
            bottom = p[j] < bottom ? p[j] : bottom;
            upper += p[j] >> 32, lower += p[j] & 0xffffffff;
        }
        NAME(doubles) squares = {0};
        for (; i + LANES <= m; i += LANES) {
            NAME(doubles) x = __builtin_convertvector(*(const NAME(some_words) *)(p + i), NAME(doubles));
            squares += x * x;
        }
        double square = 0;
        for (; i < m; i++)
            square += (double)p[i] * (double)p[i];
        for (int j = 0; j < LANES; j++)
            square += squares[j];
        all->top = top, all->bottom = bottom, all->sum += (__int128)upper * 0x100000000 + lower;
        accumulate(&all->squares, &all->squares_low, square);
        digest_block(&all->digest, p, 8 * m);
        p += m, n -= m;
    }
}

#include "_finite.h"

static const struct passes NAME(passes) = {
    NAME(float16), NAME(bfloat16), NAME(float32), NAME(float64), NAME(int8),  NAME(uint8),
    NAME(int16),   NAME(uint16),   NAME(int32),   NAME(uint32),  NAME(int64),
    {NAME(brief_float16), NAME(brief_bfloat16), NAME(brief_float32), NAME(brief_float64), NAME(brief_int8),
     NAME(brief_uint8), NAME(brief_int16), NAME(brief_uint16), NAME(brief_int32), NAME(brief_uint32),
     NAME(brief_int64), NAME(brief_uint64)},
    {NAME(at_least_float16), NAME(at_least_bfloat16), NAME(at_least_float32), NAME(at_least_float64),
     NAME(at_least_int8), NAME(at_least_uint8), NAME(at_least_int16), NAME(at_least_uint16), NAME(at_least_int32),
     NAME(at_least_uint32), NAME(at_least_int64), NAME(at_least_uint64)},
    {NAME(finite_float16), NAME(finite_bfloat16), NAME(finite_float32), NAME(finite_float64)},
};

#undef NAME
#undef TARGET
#undef VECTOR
#undef LANES
#undef SELECT
#undef MAX_float
#undef MIN_float
#undef MAX_double
#undef MIN_double
#undef MIN_int
#undef STRANDS
#undef WIDEN
#undef HALVES
#undef LESSER
#undef DECODE
#undef PASS
#undef AS_IT_IS
#undef BRIEF
#undef AT_LEAST
