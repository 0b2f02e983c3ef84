/* The shortest decimal that reads back as the same float, as Python's repr writes it; the digits are those of
   std::to_chars. */

#include <charconv>
#include <cstring>

#ifdef __cpp_lib_to_chars
#define HAS_SHORTEST 1
#else
#define HAS_SHORTEST 0 /* the C++ library is older than its standard of 2017 */
#endif

namespace {

/* Enough for every float. */
constexpr size_t SHORTEST = 40;

#if HAS_SHORTEST
/* Write a finite float, at most SHORTEST letters; returns their end. Fixed for decimal exponents from -4 to 15, and with
   at least one digit behind the point. */
char *write_shortest(char *to, double number) {
    char text[SHORTEST], digits[SHORTEST];
    const char *end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr, *at = text, *e = end;
    if (*at == '-') *to++ = *at++;
    while (*--e != 'e') continue;
    int exponent = 0;
    std::from_chars(e[1] == '+' ? e + 2 : e + 1, end, exponent);
    auto add = [&to](const char *from, size_t count) { std::memcpy(to, from, count), to += count; };
    if (exponent < -4 || exponent >= 16) {
        add(at, end - at);
        return to;
    }
    digits[0] = *at;
    int count = 1;
    if (e > at + 1) { /* behind the first digit and the point */
        std::memcpy(digits + 1, at + 2, e - at - 2);
        count = static_cast<int>(e - at) - 1;
    }
    if (exponent < 0) {
        add("0.0000", 1 - exponent);
        add(digits, count);
    } else if (exponent + 1 >= count) {
        add(digits, count);
        std::memset(to, '0', exponent + 1 - count);
        to += exponent + 1 - count;
        add(".0", 2);
    } else {
        add(digits, exponent + 1);
        *to++ = '.';
        add(digits + exponent + 1, count - exponent - 1);
    }
    return to;
}
#endif

} // namespace
