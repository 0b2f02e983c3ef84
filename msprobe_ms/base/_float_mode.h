/* Exact floating-point arithmetic in a thread that a framework may have set to flush subnormal numbers to zero, which
 * would change statistics and measures.
 *
 *     float_mode before = begin_exact_mode();
 *     ...
 *     end_exact_mode(before);
 */

#ifndef MSPROBE_FLOAT_MODE_H
#define MSPROBE_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
typedef unsigned float_mode; /* the register MXCSR */
static inline void end_exact_mode(float_mode before) { _mm_setcsr(before); }
static inline float_mode begin_exact_mode(void)
{
    float_mode before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
}
#elif defined(__aarch64__)
typedef uint64_t float_mode; /* the register FPCR */
static inline void end_exact_mode(float_mode before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
static inline float_mode begin_exact_mode(void)
{
    float_mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
    end_exact_mode(0);
    return before;
}
#else
typedef int float_mode;
static inline void end_exact_mode(float_mode before) { (void)before; }
static inline float_mode begin_exact_mode(void) { return 0; }
#endif

#endif
