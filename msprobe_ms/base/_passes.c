/* Passes over the elements of a tensor: the arithmetic of a block, and the passes of each instruction set.
 *
 * The loops are in two templates, which are compiled for each instruction set: `_passes.inc` for each dtype, and
 * `_passes_block.inc` for each type that elements are decoded to. CRC-32C is in `_digest.c`.
 *
 * Summation: each block of n elements has an anchor, a power of two above 2 n max|x|. When an element is added to a sum
 * that starts at the anchor, the digits below the last digit of the anchor are lost. This loss is computed exactly
 * (Dekker's fast two-sum) and summed separately. A block thus has two sums: `high`, without error, and `low`, at most
 * n 2^-53 anchor, with ordinary rounding, which together have about twice the precision of double. The remaining error is
 * bounded (`slack`); if the bound is too large relative to the sum, Python computes the mean exactly.
 */

#include "_passes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "requires arithmetic in exactly float and double; without this extension NumPy is used"
#endif

#define INLINE static inline __attribute__((always_inline)) /* to use the instruction set of the caller */

enum { BLOCK = 16384 }; /* bytes: half of a first-level cache */
enum { DETECT = -1 };   /* determine from the elements whether they are similar */

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Sums of one block; `cut`: whether `low` is not zero. */
struct sums {
    double high, low, squares;
    int cut;
};

/* The limit below which a magnitude counts as zero: rounded to the type, but not to zero. */
INLINE double limit_double(double eps) { return eps; }
INLINE float limit_float(double eps)
{
    return eps > 0 && (float)eps == 0 ? FLT_TRUE_MIN : (float)eps;
}

/* The least number of a type that is not below a limit, so that no magnitude of the type is between the two. */
INLINE double least_double(double limit) { return limit; }
INLINE float least_float(double limit)
{
    float near = (float)limit;
    return (double)near < limit ? nextafterf(near, INFINITY) : near;
}

/* Return the anchor of a block: 0 if all elements are zero, -1 if one is infinite or all are NaN. It may be infinite. */
INLINE double anchor_of(double top, double bottom, size_t n)
{
    union { double value; uint64_t bits; } peak = {fabs(top > -bottom ? top : -bottom)};
    uint64_t exponent = peak.bits >> 52;
    if (exponent == 2047 || peak.bits == 0)
        return exponent ? -1 : 0;
    exponent = (exponent ? exponent : 1) + 66 - (uint64_t)__builtin_clzll(n);
    peak.bits = (exponent < 2047 ? exponent : 2047) << 52;
    return peak.value;
}

/* Add x to *sum + *low, with an error only in *low (Neumaier). */
INLINE void accumulate(double *sum, double *low, double x)
{
    double next = *sum + x;
    *low += fabs(*sum) >= fabs(x) ? (*sum - next) + x : (x - next) + *sum;
    *sum = next;
}

/* Add the sums of a block of n elements to its tensor. `low` was summed in chains of at most `chain`. */
INLINE void gather(struct floats *all, const struct sums *found, double anchor, size_t n, size_t chain)
{
    accumulate(&all->sum, &all->sum_low, found->high);
    all->slack += fabs(all->sum_low) * 0x1p-52;
    if (found->cut) {
        all->sum_low += found->low;
        all->slack += fabs(all->sum_low) * 0x1p-52 + anchor * (double)n * (double)chain * 0x1p-106;
    }
    if (found->squares <= DBL_MAX && all->squares <= DBL_MAX)
        accumulate(&all->squares, &all->squares_low, found->squares);
    else
        all->squares = INFINITY, all->squares_low = 0;
}

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define VECTOR 32
#define DIGEST DIGEST_STEPS
#define MAX_float(x, best) _mm256_max_ps(x, best)
#define MIN_float(x, best) _mm256_min_ps(x, best)
#define MAX_double(x, best) _mm256_max_pd(x, best)
#define MIN_double(x, best) _mm256_min_pd(x, best)
#define MIN_int(x, best) _mm256_min_epi32((__m256i)(x), (__m256i)(best))
#define WIDEN(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#define HALVES(from, to) _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#include "_passes.inc"

#define MAX_float(x, best) _mm_max_ps(x, best)
#define MIN_float(x, best) _mm_min_ps(x, best)
#define MAX_double(x, best) _mm_max_pd(x, best)
#define MIN_double(x, best) _mm_min_pd(x, best)
#define WIDEN(from) _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(from))))
#endif

#define NAME(x) x##_plain
#define TARGET
#define VECTOR 16
#include "_passes.inc"

const struct passes *active_passes = &passes_plain;

const struct passes *passes_for(const char *instruction_set)
{
#if defined(__x86_64__)
    if (strcmp(instruction_set, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &passes_avx2; /* processors with AVX2 have F16C */
#endif
    return strcmp(instruction_set, "plain") == 0 ? &passes_plain : NULL;
}

/* The elements are scaled by a power of two. */
double scaled_norm(const double *p, size_t n, double peak)
{
    int exponent;
    double sum = 0, low = 0;
    frexp(peak, &exponent);
    exponent = exponent > 1020 ? 1020 : exponent < -1020 ? -1020 : exponent;
    double scale = ldexp(1.0, -exponent);
    for (size_t i = 0; i < n;) {
        double square = 0;
        for (size_t end = n - i < 1024 ? n : i + 1024; i < end; i++)
            square += (p[i] * scale) * (p[i] * scale);
        accumulate(&sum, &low, square);
    }
    return sqrt(sum + low) / scale;
}
