/* Adds one block of floats or doubles to the statistics of its tensor.
 *
 * Included by `_statistic_pass.h` for each element type, which defines:
 *   T             float or double
 *   OF(x)         the name of x for this type and instruction set
 *   LOAD(from)    LANES elements as a register of doubles
 *   COUNTS        a register of integers as wide as T
  *   BEST(more, x, best)   the maximum (more = MAX) or minimum (MIN) of each lane; `best` where x is NaN
  *
  * The block is in the first-level cache, so it is read twice: for its extremes, which determine the anchor, and for its
  * sums.
  */

typedef T OF(pack) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

/* Compute the extremes of a block, ignoring NaN; -inf and inf if all elements are NaN.
 *
 * With `look` (only for float), return whether the elements are *similar*: the sum of any eight of them in double is exact.
 * This is the case if the last digit of the smallest nonzero magnitude is within 53 digits of eight times the largest, and
 * thus if the smallest is at least 2^-26 of the largest.
 */
TARGET INLINE int OF(extremes)(const T *p, size_t n, int look, T *max, T *min, struct strands *with)
{
    enum { WIDE = VECTOR / sizeof(T) };
    OF(pack) top0 = (OF(pack)){0} - (T)INFINITY, top1 = top0;
    OF(pack) bottom0 = (OF(pack)){0} + (T)INFINITY, bottom1 = bottom0;
    NAME(ints) least0 = (NAME(ints)){0} + INT32_MAX, least1 = least0;
    struct strands strands = *with;
    T top = -(T)INFINITY, bottom = (T)INFINITY;
    int32_t least = INT32_MAX;
    size_t i = 0;

    for (; i + 2 * WIDE <= n; i += 2 * WIDE) {
        STRANDS(strands, 1)
        OF(pack) x = *(const OF(pack) *)(p + i), y = *(const OF(pack) *)(p + i + WIDE);
        top0 = BEST(MAX, x, top0), bottom0 = BEST(MIN, x, bottom0);
        top1 = BEST(MAX, y, top1), bottom1 = BEST(MIN, y, bottom1);
        if (look) { /* without sign, and shifted so that the order is that of magnitudes with zero last */
            NAME(ints) u = (NAME(ints))(((NAME(bits))x << 1) + INT32_MAX);
            NAME(ints) v = (NAME(ints))(((NAME(bits))y << 1) + INT32_MAX);
            least0 = LESSER(u, least0), least1 = LESSER(v, least1);
        }
    }
    top0 = BEST(MAX, top1, top0), bottom0 = BEST(MIN, bottom1, bottom0), least0 = LESSER(least1, least0);
    for (int j = 0; j < WIDE; j++) {
        top = top0[j] > top ? top0[j] : top;
        bottom = bottom0[j] < bottom ? bottom0[j] : bottom;
    }
    for (; i < n; i++) {
        top = p[i] > top ? p[i] : top;
        bottom = p[i] < bottom ? p[i] : bottom;
    }
    *max = top, *min = bottom, *with = strands;
    for (int j = 0; look && j < VECTOR / 4; j++)
        least = least0[j] < least ? least0[j] : least;
    union { uint32_t bits; float value; } magnitude = {((uint32_t)least - INT32_MAX) >> 1};
    return least == INT32_MAX || magnitude.value >= 0x1p-26f * (top > -bottom ? top : -bottom);
}

/* Add x to `high`, rounded to the last digit of the anchor, and the (exact, because |high| > |x|) rounding error to `low`;
 * `cut` records whether there was an error. */
#define CUT(k, x)                                                                                                      \
    do {                                                                                                               \
        NAME(doubles) sum = high##k + (x);                                                                             \
        NAME(doubles) error = (x) - (sum - high##k);                                                                   \
        high##k = sum, low##k += error, cut##k |= (NAME(words))error;                                                  \
    } while (0)

/* Return the sums of a block. Similar elements are added in groups of eight. `next` is prefetched. */
TARGET INLINE struct sums OF(sums)(const T *p, size_t n, double anchor, int similar, const char *next,
                                  struct strands *with)
{
    NAME(doubles) high0 = (NAME(doubles)){0} + anchor, high1 = high0;
    NAME(doubles) low0 = {0}, low1 = {0}, squares0 = {0}, squares1 = {0};
    NAME(words) cut0 = {0}, cut1 = {0};
    struct sums found = {0, 0, 0, 0};
    struct strands strands = *with;
    size_t i = 0;

    for (; similar && i + 8 * LANES <= n; i += 8 * LANES) {
        STRANDS(strands, 3)
        for (size_t j = 0; j < 8 * LANES; j += 64 / sizeof(T))
            __builtin_prefetch(next + (i + j) * sizeof(T), 0, 2);
        NAME(doubles) a = LOAD(p + i), b = LOAD(p + i + LANES);
        NAME(doubles) c = LOAD(p + i + 2 * LANES), d = LOAD(p + i + 3 * LANES);
        NAME(doubles) e = LOAD(p + i + 4 * LANES), f = LOAD(p + i + 5 * LANES);
        NAME(doubles) g = LOAD(p + i + 6 * LANES), h = LOAD(p + i + 7 * LANES);
        NAME(doubles) eight = ((a + b) + (c + d)) + ((e + f) + (g + h));
        squares0 += (a * a + b * b + c * c + d * d) + (e * e + f * f + g * g + h * h);
        CUT(0, eight);
    }
    for (; i < n; i += 2 * LANES) {
        T padded[2 * LANES] = {0};
        const T *from = p + i;
        STRANDS(strands, 1)
        if (n - i < 2 * LANES)
            from = memcpy(padded, from, (n - i) * sizeof(T));
        __builtin_prefetch(next + i * sizeof(T), 0, 2);
        NAME(doubles) x = LOAD(from), y = LOAD(from + LANES);
        squares0 += x * x, squares1 += y * y;
        CUT(0, x);
        CUT(1, y);
    }
    *with = strands;
    high0 = (high0 - anchor) + (high1 - anchor), low0 += low1, squares0 += squares1, cut0 |= cut1;
    for (int j = 0; j < LANES; j++) {
        found.high += high0[j], found.low += low0[j], found.squares += squares0[j];
        found.cut |= (cut0[j] & INT64_MAX) != 0;
    }
    return found;
}

/* Add a block. `like`: whether the elements are similar, 1, 0, or LOOK. */
TARGET static void OF(add)(struct floats *all, const T *p, size_t n, int like, const void *next)
{
    T top, bottom;
    int similar = like;
    if (like == LOOK)
        similar = OF(extremes)(p, n, 1, &top, &bottom, &all->digest.strands);
    else
        OF(extremes)(p, n, 0, &top, &bottom, &all->digest.strands);
    all->top = top > all->top ? top : all->top;
    all->bottom = bottom < all->bottom ? bottom : all->bottom;

    double anchor = anchor_of(top, bottom, n);
    if (anchor >= 0) {
        struct sums found = OF(sums)(p, n, anchor, similar, next, &all->digest.strands);
        if (found.squares == found.squares) {
            gather(all, &found, anchor, n, n / (2 * LANES) + 2 * LANES);
            return;
        }
    }
    int nan = 0, up = 0, down = 0; /* narrow, so that the loop is vectorized */
    for (size_t i = 0; i < n; i++)
        nan += p[i] != p[i], up += p[i] == (T)INFINITY, down += p[i] == -(T)INFINITY;
    all->nan += nan, all->up += up, all->down += down;
}

#include "_brief_block.h"

#undef T
#undef OF
#undef LOAD
#undef BEST
#undef COUNTS
#undef CUT
