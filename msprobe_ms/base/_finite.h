/* Return whether all elements of a tensor are finite: no exponent has all bits set. Reads each element once.
 *
 * Included by `_statistic_pass.h` for each instruction set. Stops after the first block with a non-finite element.
 */

#define FINITE(name, U, EXPONENT)                                                                                      \
    typedef U NAME(pack_##name) __attribute__((vector_size(VECTOR), aligned(sizeof(U)), may_alias));                   \
    TARGET static int NAME(finite_##name)(const void *data, size_t n)                                                  \
    {                                                                                                                  \
        enum { WIDE = VECTOR / sizeof(U) };                                                                            \
        const NAME(pack_##name) exponent = (NAME(pack_##name)){0} + (U)EXPONENT;                                       \
        for (const U *p = data; n > 0;) {                                                                              \
            size_t m = n < BLOCK / sizeof(U) ? n : BLOCK / sizeof(U), i = 0;                                           \
            NAME(words) a = {0}, b = {0};                                                                              \
            U rest = 0;                                                                                                \
            for (; i + 2 * WIDE <= m; i += 2 * WIDE) {                                                                 \
                const NAME(pack_##name) *at = (const NAME(pack_##name) *)(p + i);                                      \
                a |= (NAME(words))((at[0] & exponent) == exponent);                                                    \
                at = (const NAME(pack_##name) *)(p + i + WIDE);                                                        \
                b |= (NAME(words))((at[0] & exponent) == exponent);                                                    \
            }                                                                                                          \
            for (; i < m; i++)                                                                                         \
                rest |= (p[i] & (U)EXPONENT) == (U)EXPONENT;                                                           \
            a |= b;                                                                                                    \
            int64_t found = rest;                                                                                      \
            for (int j = 0; j < LANES; j++)                                                                            \
                found |= a[j];                                                                                         \
            if (found)                                                                                                 \
                return 0;                                                                                              \
            p += m, n -= m;                                                                                            \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
FINITE(float16, uint16_t, 0x7c00)
FINITE(bfloat16, uint16_t, 0x7f80)
FINITE(float32, uint32_t, 0x7f800000)
FINITE(float64, uint64_t, 0x7ff0000000000000)
#undef FINITE
