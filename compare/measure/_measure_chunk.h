/* One chunk of two tensors of floats or doubles into what was found so far.
 *
 * Included by `_measure_sweep.h` for each element type, which says:
 *   T            float or double: relative errors are taken in this type
 *   OF(x)        the name of x for this type and instruction set
 *   PACK, FLAGS  a register of T, and of integers as wide
 *   SIGNLESS     all bits of such an integer but the sign
 *   LOAD(from)   LANES elements as doubles
 *   BEST(x, best)   the greater of each lane
 */

enum { OF(WIDE) = VECTOR / sizeof(T) };

struct OF(ratios) {
    PACK relative;
    FLAGS nearer, near;
};

/* abs((t - g) / g); where g is zero, EPSILON is added to both. */
TARGET INLINE void OF(ratio)(struct OF(ratios) *to, const T *t, const T *g)
{
    PACK x = *(const PACK *)t, y = *(const PACK *)g;
    PACK tiny = (PACK)((FLAGS)((PACK){0} + (T)EPSILON) & (FLAGS)(y == 0));
    x += tiny, y += tiny;
    PACK relative = ABS(PACK, FLAGS, SIGNLESS, (x - y) / y);
    to->relative = BEST(relative, to->relative);
    to->nearer -= (FLAGS)(relative < (T)0.001), to->near -= (FLAGS)(relative < (T)0.005);
}

/* Eight elements; `exact` holds their differences where t - g would not do. */
TARGET INLINE void OF(eight)(struct NAME(lanes) *to, struct OF(ratios) *ratios, const T *t, const T *g,
                             const double *exact, const struct rule *rule, double excess)
{
    for (int i = 0; i < 8; i += OF(WIDE))
        OF(ratio)(ratios, t + i, g + i);
    for (int i = 0; i < 8; i += LANES) {
        NAME(doubles) x = LOAD(t + i), y = LOAD(g + i), d = x - y;
        if (exact)
            d = *(const NAME(doubles) *)(exact + i);
        NAME(add)(&to[i / LANES % SETS], &x, &y, &d, rule, excess);
    }
}

INLINE double OF(difference)(const T *t, const T *g, const double *exact, size_t i)
{
    return fabs(exact ? exact[i] : (double)t[i] - (double)g[i]);
}

/* How much of what is allowed one element differs; 0 / 0 is 0. */
INLINE double OF(share)(const T *t, const T *g, const double *exact, size_t i, const struct rule *rule)
{
    double d = OF(difference)(t, g, exact, i);
    return d > 0 ? d / (rule->allowance + rule->relative * fabs((double)g[i])) : 0;
}

/* The greatest share of a chunk. */
TARGET static double OF(excess)(const T *t, const T *g, const double *exact, size_t n, const struct rule *rule)
{
    NAME(doubles) most = {0};
    double greatest = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(doubles) x = LOAD(t + i), y = LOAD(g + i), d = x - y;
        if (exact)
            d = *(const NAME(doubles) *)(exact + i);
        NAME(doubles) absolute = SIZE(d), share = absolute / (rule->allowance + rule->relative * SIZE(y));
        share = (NAME(doubles))((NAME(longs))share & (NAME(longs))(absolute > 0));
        most = MAX_double(share, most);
    }
    for (; i < n; i++)
        greatest = fmax(OF(share)(t, g, exact, i, rule), greatest);
    for (int j = 0; j < LANES; j++)
        greatest = fmax(most[j], greatest);
    return greatest;
}

/* Sums and extremes of a chunk of n elements that begins at `at`; 0, and nothing found, where its squares are not finite. */
TARGET static int OF(chunk)(struct found *all, const T *t, const T *g, const double *exact, size_t n, size_t at,
                            const struct rule *rule, int whatever)
{
    struct NAME(lanes) lanes[SETS] = {0};
    struct OF(ratios) ratios = {0};
    size_t i = 0, pads = (8 - n % 8) % 8;

    for (; i + 8 <= n; i += 8)
        OF(eight)(lanes, &ratios, t + i, g + i, exact ? exact + i : NULL, rule, all->excess);
    if (i < n) {
        T last_t[8] = {0}, last_g[8] = {0};
        double last_d[8] = {0};
        memcpy(last_t, t + i, (n - i) * sizeof(T)), memcpy(last_g, g + i, (n - i) * sizeof(T));
        if (exact)
            memcpy(last_d, exact + i, (n - i) * sizeof(double));
        OF(eight)(lanes, &ratios, last_t, last_g, exact ? last_d : NULL, rule, all->excess);
    }

    double dd = TOTAL(lanes, dd), absolute = 0;
    if (!whatever && !(dd <= DBL_MAX))
        return 0;
    all->dot += TOTAL(lanes, dot);
    all->tt += TOTAL(lanes, tt);
    all->gg += TOTAL(lanes, gg);
    all->sum += TOTAL(lanes, sum);
    all->dd += dd;
    int64_t over = 0;
    for (int j = 0; j < 4; j++) {
        absolute = fmax(LANE(lanes, absolute, j), absolute);
        all->greatest = fmax(LANE(lanes, greatest, j), all->greatest);
        all->ulps = fmax(LANE(lanes, ulps, j), all->ulps);
        all->beyond += LANE(lanes, beyond, j), over |= LANE(lanes, over, j);
    }
    for (int j = 0; j < OF(WIDE); j++) {
        all->relative = fmax(ratios.relative[j], all->relative);
        all->nearer += ratios.nearer[j], all->near += ratios.near[j];
    }
    all->nearer -= (int64_t)pads, all->near -= (int64_t)pads;

    if (absolute > all->absolute) {
        for (i = 0; OF(difference)(t, g, exact, i) != absolute;)
            i++;
        all->absolute = absolute, all->absolute_at = (int64_t)(at + i);
    }
    if (over && absolute > 0 && OF(excess)(t, g, exact, n, rule) > all->excess)
        for (i = 0; i < n; i++) {
            double share = OF(share)(t, g, exact, i, rule);
            if (share > all->excess)
                all->excess = share, all->excess_at = (int64_t)(at + i);
        }
    return 1;
}

/* The same where squares are not finite. What is not finite counts as zero on both sides; where the two are not the same
 * NaN or infinity, it is a mismatch. The greatest golden element is looked for among all finite ones. */
TARGET static void OF(careful)(struct found *all, const T *t, const T *g, size_t n, size_t at, const struct rule *rule)
{
    T clean_t[CHUNK], clean_g[CHUNK];
    for (size_t i = 0; i < n; i++) {
        int finite_t = isfinite(t[i]), finite_g = isfinite(g[i]), both = finite_t && finite_g;
        clean_t[i] = both ? t[i] : 0, clean_g[i] = both ? g[i] : 0;
        if (finite_g && fabs((double)g[i]) > all->greatest)
            all->greatest = fabs((double)g[i]);
        if (both || t[i] == g[i] || (t[i] != t[i] && g[i] != g[i]))
            continue;
        if (!all->mismatched++)
            all->mismatched_at = (int64_t)(at + i);
    }
    OF(chunk)(all, clean_t, clean_g, NULL, n, at, rule, 1);
}

/* The greatest finite magnitude. */
TARGET static double OF(greatest)(const T *g, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double size = fabs((double)g[i]);
        most = size > most && size <= DBL_MAX ? size : most;
    }
    return most;
}

/* What `chunk` finds in a chunk that is equal on both sides; 0, and nothing found, where its squares are not finite. */
TARGET static int OF(same)(struct found *all, const T *g, size_t n)
{
    struct NAME(lanes) lanes[SETS] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < SETS; j++) {
            NAME(doubles) y = LOAD(g + i + j * LANES);
            lanes[j].gg += y * y, lanes[j].greatest = MAX_double(SIZE(y), lanes[j].greatest);
        }
    double squares = TOTAL(lanes, gg), most = 0;
    for (; i < n; i++)
        squares += (double)g[i] * (double)g[i], most = fmax(fabs((double)g[i]), most);
    if (!(squares <= DBL_MAX))
        return 0;
    for (int j = 0; j < 4; j++)
        most = fmax(LANE(lanes, greatest, j), most);
    all->dot += squares, all->tt += squares, all->gg += squares;
    all->nearer += (int64_t)n, all->near += (int64_t)n;
    all->greatest = fmax(most, all->greatest);
    return 1;
}

#undef T
#undef OF
#undef PACK
#undef FLAGS
#undef SIGNLESS
#undef LOAD
#undef BEST
