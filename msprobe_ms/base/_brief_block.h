/* Adds one block of floats or doubles to the monitor's statistics of its tensor, in one pass.
 *
 * Included by `_statistic_block.h`, which defines T, OF, LOAD, BEST, COUNTS and the registers. Each sum has SPREAD lanes
 * independent of the width of a register, and the lanes are added in a fixed order: except for double, all instruction sets
 * return the same bits (the square of a float is exact in double; that of a double may be fused with the addition).
 */

TARGET static void OF(brief_block)(struct brief *all, const T *p, size_t n, T limit, const char *next)
{
    enum { SPREAD = 16, WIDE = VECTOR / sizeof(T), PACKS = SPREAD / WIDE, PARTS = SPREAD / LANES };
    const NAME(words) magnitude = (NAME(words)){0} + (sizeof(T) == 4 ? 0x7fffffff7fffffff : 0x7fffffffffffffff);
    NAME(doubles) sums[PARTS] = {{0}}, squares[PARTS] = {{0}};
    OF(pack) top0 = (OF(pack)){0} - (T)INFINITY, top1 = top0, bottom0 = -top0, bottom1 = bottom0;
    COUNTS zeros = {0};
    T top = -(T)INFINITY, bottom = (T)INFINITY;
    double sum = 0, square = 0;
    int64_t zero = 0, nan = 0;
    size_t i = 0;

    for (; i + SPREAD <= n; i += SPREAD) {
        for (size_t j = 0; j < SPREAD * sizeof(T); j += 64)
            __builtin_prefetch(next + i * sizeof(T) + j, 0, 2);
        for (int k = 0; k < PACKS; k += 2) {
            OF(pack) x = *(const OF(pack) *)(p + i + k * WIDE), y = *(const OF(pack) *)(p + i + (k + 1) * WIDE);
            top0 = BEST(MAX, x, top0), bottom0 = BEST(MIN, x, bottom0);
            top1 = BEST(MAX, y, top1), bottom1 = BEST(MIN, y, bottom1);
            zeros += (COUNTS)((OF(pack))((NAME(words))x & magnitude) < limit); /* true is -1 */
            zeros += (COUNTS)((OF(pack))((NAME(words))y & magnitude) < limit);
        }
        for (int k = 0; k < PARTS; k++) {
            NAME(doubles) x = LOAD(p + i + k * LANES);
            sums[k] += x, squares[k] += x * x;
        }
    }
    top0 = BEST(MAX, top1, top0), bottom0 = BEST(MIN, bottom1, bottom0);
    for (int j = 0; j < WIDE; j++) {
        top = top0[j] > top ? top0[j] : top;
        bottom = bottom0[j] < bottom ? bottom0[j] : bottom;
        zero -= zeros[j];
    }
    for (int k = 0; k < PARTS; k++)
        for (int j = 0; j < LANES; j++)
            sum += sums[k][j], square += squares[k][j];
    for (; i < n; i++) {
        double x = p[i];
        top = p[i] > top ? p[i] : top;
        bottom = p[i] < bottom ? p[i] : bottom;
        zero += p[i] < limit && p[i] > -limit;
        sum += x, square += x * x;
    }
    if (square != square) { /* an element is NaN; squares of infinities are infinite */
        int found = 0;      /* narrow, so that the loop is vectorized */
        for (size_t j = 0; j < n; j++)
            found += p[j] != p[j];
        nan = found;
    }
    all->top = top > all->top ? top : all->top;
    all->bottom = bottom < all->bottom ? bottom : all->bottom;
    all->sum += sum, all->squares += square, all->zeros += zero, all->nans += nan;
}
