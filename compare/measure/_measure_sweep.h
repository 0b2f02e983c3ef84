/* The sweep over one chunk of two tensors, written once for two element types and two instruction sets.
 *
 * `_measure.c` includes this file for each instruction set and says:
 *   NAME(x)    the name of x for this instruction set
 *   TARGET     the attribute that chooses it
 *   VECTOR     the bytes of one register
 * and what compilers do not find by themselves, if there is an instruction for it:
 *   MAX_float, MAX_double   (x, best): the greater, lane by lane
 *   WIDEN(from)             half a register of floats to doubles
 *   HALVES(from, to)        eight values of float16 to float
 *
 * Sums run in four lanes whatever a register holds, and nothing is contracted into fused operations (setup.py), so every
 * instruction set gives the same bits.
 */

#define LANES (VECTOR / 8)
#define SETS (4 / LANES)

typedef float NAME(floats) __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef float NAME(some_floats) __attribute__((vector_size(VECTOR / 2), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef double NAME(doubles) __attribute__((vector_size(VECTOR), aligned(8), may_alias));
typedef int64_t NAME(longs) __attribute__((vector_size(VECTOR), aligned(8), may_alias));

#ifndef MAX_double
#define SELECT(I, V, x, best) ((V)(((I)(x) & (I)((x) > (best))) | ((I)(best) & ~(I)((x) > (best)))))
#define MAX_float(x, best) SELECT(NAME(ints), NAME(floats), x, best)
#define MAX_double(x, best) SELECT(NAME(longs), NAME(doubles), x, best)
#endif
#ifndef WIDEN
#define WIDEN(from) __builtin_convertvector(*(const NAME(some_floats) *)(from), NAME(doubles))
#endif

#define ABS(V, I, mask, x) ((V)((I)(x) & (mask)))
#define MAGNITUDE(x) ABS(NAME(doubles), NAME(longs), INT64_MAX, x)

#define SIZE(x) ABS(NAME(doubles), NAME(longs), INT64_MAX, x)

/* Sums and extremes, lane by lane. `over` tells whether any share may be above the greatest before this chunk. */
struct NAME(lanes) {
    NAME(doubles) dot, tt, gg, dd, sum, absolute, greatest, ulps;
    NAME(longs) over, beyond;
};

/* A register of differences d = t - g and of both sides. */
TARGET INLINE void NAME(add)(struct NAME(lanes) *to, const NAME(doubles) *t, const NAME(doubles) *g,
                             const NAME(doubles) *d, const struct rule *rule, double excess)
{
    NAME(doubles) x = *t, y = *g, difference = *d, absolute = SIZE(difference), size = SIZE(y);
    to->dot += x * y, to->tt += x * x, to->gg += y * y, to->dd += difference * difference, to->sum += difference;
    to->absolute = MAX_double(absolute, to->absolute), to->greatest = MAX_double(size, to->greatest);

    /* absolute / allowed > excess only if this holds, because rounding keeps order. */
    NAME(doubles) allowed = rule->allowance + rule->relative * size;
    to->over |= (NAME(longs))(absolute >= excess * allowed);
    to->beyond -= (NAME(longs))(absolute > allowed);

    /* The golden's power of two, not below the least normal one; 2 / power has its exponent mirrored. */
    NAME(doubles) least = (NAME(doubles)){0} + rule->least;
    NAME(longs) power = (NAME(longs))MAX_double(size, least) & EXPONENT;
    NAME(doubles) ulps = absolute * (NAME(doubles))(EXPONENT - power);
    to->ulps = MAX_double(ulps, to->ulps);
}

/* Four lanes of a sum, in one order. */
#define LANE(of, field, j) ((of)[(j) / LANES].field[(j) % LANES])
#define TOTAL(of, field) ((LANE(of, field, 0) + LANE(of, field, 1)) + (LANE(of, field, 2) + LANE(of, field, 3)))

#define T float
#define OF(x) NAME(x##_float)
#define PACK NAME(floats)
#define FLAGS NAME(ints)
#define SIGNLESS INT32_MAX
#define LOAD(from) WIDEN(from)
#define BEST(x, best) MAX_float(x, best)
#include "_measure_chunk.h"

#define T double
#define OF(x) NAME(x##_double)
#define PACK NAME(doubles)
#define FLAGS NAME(longs)
#define SIGNLESS INT64_MAX
#define LOAD(from) (*(const NAME(doubles) *)(from))
#define BEST(x, best) MAX_double(x, best)
#include "_measure_chunk.h"

/* ---- elements of any type as float or double */

TARGET static const float *NAME(to_float)(char code, const void *from, size_t n, float *to)
{
    const uint16_t *p = from;
    size_t i = 0;
    if (code == 'f')
        return from;
#ifdef HALVES
    for (; i + 8 <= n; i += 8)
        HALVES(p + i, to + i);
#endif
    for (; i < n; i++) {
        /* A float16's digits at their place in a float are too small by 2^112. Multiplying mends subnormals as well. */
        union { uint32_t bits; float value; } half = {(uint32_t)(p[i] & 0x7fff) << 13};
        half.value *= 0x1p112f;
        half.bits |= (half.value >= 65536.0f ? 0x7f800000 : 0) | (uint32_t)(p[i] & 0x8000) << 16;
        to[i] = half.value;
    }
    return to;
}

#define CONVERT(source)                                                                                                \
    for (size_t i = 0; i < n; i++)                                                                                     \
        to[i] = (double)((const source *)from)[i];                                                                     \
    break

TARGET static const double *NAME(to_double)(char code, const void *from, size_t n, double *to)
{
    float wide[CHUNK];
    switch (code) {
    case 'd': return from;
    case 'e': from = NAME(to_float)(code, from, n, wide); CONVERT(float);
    case 'f': CONVERT(float);
    case '?':
        for (size_t i = 0; i < n; i++)
            to[i] = ((const uint8_t *)from)[i] != 0; /* a file may hold other bytes than 0 and 1 */
        break;
    case 'b': CONVERT(int8_t);
    case 'B': CONVERT(uint8_t);
    case 'h': CONVERT(int16_t);
    case 'H': CONVERT(uint16_t);
    case 'i': CONVERT(int32_t);
    case 'I': CONVERT(uint32_t);
    case 'q': CONVERT(int64_t);
    default: CONVERT(uint64_t);
    }
    return to;
}
#undef CONVERT

#define HALVE(source)                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        source x = ((const source *)from)[i];                                                                          \
        high[i] = (double)(int64_t)(x >> 32), low[i] = (double)(int64_t)(x & 0xffffffff);                              \
    }                                                                                                                  \
    break

#define KEEP(source)                                                                                                   \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        int64_t x = ((const source *)from)[i];                                                                         \
        high[i] = (double)(x >> 32), low[i] = (double)(x & 0xffffffff);                                                \
    }                                                                                                                  \
    break

/* x = 2^32 high + low of every integer type; double holds both halves. */
TARGET static void NAME(halves)(char code, const void *from, size_t n, double *high, double *low)
{
    switch (code) {
    case '?':
        for (size_t i = 0; i < n; i++)
            high[i] = 0, low[i] = ((const uint8_t *)from)[i] != 0;
        break;
    case 'b': KEEP(int8_t);
    case 'B': KEEP(uint8_t);
    case 'h': KEEP(int16_t);
    case 'H': KEEP(uint16_t);
    case 'i': KEEP(int32_t);
    case 'I': KEEP(uint32_t);
    case 'q': HALVE(int64_t);
    default: HALVE(uint64_t);
    }
}
#undef HALVE
#undef KEEP

/* t - g of integers, rounded once: double does not hold all of them, and unsigned ones would wrap. */
TARGET static void NAME(differ)(char code_t, const void *t, char code_g, const void *g, size_t n, double *d)
{
    double high_t[CHUNK], low_t[CHUNK], high_g[CHUNK], low_g[CHUNK];
    NAME(halves)(code_t, t, n, high_t, low_t);
    NAME(halves)(code_g, g, n, high_g, low_g);
    for (size_t i = 0; i < n; i++)
        d[i] = (high_t[i] - high_g[i]) * 0x1p32 + (low_t[i] - low_g[i]);
}

static const struct sweep NAME(sweep) = {
    NAME(chunk_float), NAME(careful_float), NAME(same_float), NAME(greatest_float), NAME(to_float),
    NAME(chunk_double), NAME(careful_double), NAME(same_double), NAME(greatest_double), NAME(to_double), NAME(differ),
};

#undef NAME
#undef TARGET
#undef SELECT
#undef MAX_float
#undef MAX_double
#undef WIDEN
#undef HALVES
#undef ABS
#undef SIZE
#undef VECTOR
#undef LANES
#undef SETS
#undef LANE
#undef TOTAL
