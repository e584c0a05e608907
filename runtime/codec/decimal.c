// decimal.c: see decimal.h. Numbers of the usual sizes are exact in integers of 128 bits, times a
// power of 2: that of a power of 10 is a power of 5. The C library does the rest, in ten times the
// time.
#include <runtime/codec/decimal.h>

#include <langinfo.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum {
    DIGITS = 17,      // That tell all doubles apart,
    PRECISION = 15,   // and that all doubles have.
    FLOAT_DIGITS = 9, // The same of floats.
    FLOAT_PRECISION = 6,
    FIVES = 27,       // The highest power of 5 of 64 bits,
    FIVES_MOST = 31,  // and of what leaves room for a double's bits and two more.
    TENS = 19,        // The highest power of 10 of 64 bits,
    TENS_EXACT = 22,  // and of a double.
    DOUBLE_BITS = 53, // Of a double, the first one included.
};

static const uint64_t fives[FIVES + 1] = {
    1,
    5,
    25,
    125,
    625,
    3125,
    15625,
    78125,
    390625,
    1953125,
    9765625,
    48828125,
    244140625,
    1220703125,
    6103515625,
    30517578125,
    152587890625,
    762939453125,
    3814697265625,
    19073486328125,
    95367431640625,
    476837158203125,
    2384185791015625,
    11920928955078125,
    59604644775390625,
    298023223876953125,
    1490116119384765625,
    7450580596923828125,
};

// ---- writing

// Its digits, without zeros at their end, and the power of 10 of the first one.
typedef struct decimal {
    char digits[DIGITS];
    int count, exponent;
} decimal;

// What lies between the neighbours of a number, in units of 10^-scale and 4^-1 of the number's last
// bit; behind `shift` bits stands the point.
typedef struct span {
    wide low, value, high;
    int shift;
} span;

static span span_of(uint64_t bits, int exponent, int scale)
{
    wide factor = fives[scale < FIVES ? scale : FIVES];
    if (scale > FIVES)
        factor *= fives[scale - FIVES];
    bool first = bits == (uint64_t)1 << (DOUBLE_BITS - 1); // The one below it is half as far.
    return (span){.low = (4 * (wide)bits - (first ? 1 : 2)) * factor,
                  .value = 4 * (wide)bits * factor,
                  .high = (4 * (wide)bits + 2) * factor,
                  .shift = 2 - exponent - scale};
}

// The value at so many digits fewer, as near as can be, within the bounds.
static uint64_t nearest(const span *of, int fewer, uint64_t low, uint64_t high)
{
    uint64_t whole = (uint64_t)(of->value >> of->shift), unit = 1;
    wide part = of->value & (((wide)1 << of->shift) - 1), half = (wide)1 << (of->shift - 1);
    bool above = part > half || (part == half && (whole & 1) != 0);
    uint64_t found = whole;
    for (int i = 0; i < fewer; i++)
        unit *= 10;
    if (fewer > 0) {
        uint64_t rest = whole % unit;
        found = whole / unit;
        above = 2 * rest > unit || (2 * rest == unit && (part != 0 || (found & 1) != 0));
    }
    found += above;
    return found < low ? low : found > high ? high : found;
}

// The fewest digits between the neighbours' halves. The halves themselves are left out, though a
// reader takes those of even numbers for them: it costs a digit, and hardly ever.
static void shorten(const span *of, int scale, decimal *out)
{
    wide below = ((wide)1 << of->shift) - 1;
    uint64_t low = (uint64_t)(of->low >> of->shift) + 1;
    uint64_t high = (uint64_t)((of->high + below) >> of->shift) - 1;
    int fewer = 0;
    for (;;) {
        uint64_t next_low = (low + 9) / 10, next_high = high / 10;
        if (next_low > next_high)
            break;
        low = next_low;
        high = next_high;
        fewer++;
    }
    uint64_t left = nearest(of, fewer, low, high);
    while (left % 10 == 0) {
        left /= 10;
        fewer++;
    }
    char text[DIGITS + 3];
    int count = 0;
    for (; left > 0; left /= 10)
        text[count++] = (char)('0' + left % 10);
    for (int i = 0; i < count; i++)
        out->digits[i] = text[count - 1 - i];
    out->count = count;
    out->exponent = count - 1 + fewer - scale;
}

// False: it is not among the usual ones.
static bool find_digits(double value, decimal *out)
{
    static const uint64_t least = 10000000000000000, most = 100000000000000000;
    uint64_t bits;
    if (!(value >= 1e-14 && value < 0x1p53))
        return false;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> (DOUBLE_BITS - 1)) - 1075; // No sign, and no small one.
    bits = (bits & (((uint64_t)1 << (DOUBLE_BITS - 1)) - 1)) | (uint64_t)1 << (DOUBLE_BITS - 1);
    // Its power of 10, or the one above it: 1233 / 4096 is the logarithm of 2.
    int power = ((exponent + DOUBLE_BITS) * 1233) >> 12;
    for (int scale = DIGITS - 1 - power; scale <= FIVES_MOST; scale++) {
        if (scale < 0 || 2 - exponent - scale < 1)
            return false;
        span of = span_of(bits, exponent, scale);
        uint64_t whole = (uint64_t)(of.value >> of.shift);
        if (whole >= most)
            return false;
        if (whole < least)
            continue;
        shorten(&of, scale, out);
        return true;
    }
    return false;
}

static size_t put(const decimal *it, char *text)
{
    char *at = text;
    int whole = it->exponent + 1; // Digits before the point.
    int precision = it->count > PRECISION ? it->count : PRECISION, size = abs(it->exponent);
    if (it->exponent < -4 || it->exponent >= precision) {
        *at++ = it->digits[0];
        if (it->count > 1)
            *at++ = '.';
        memcpy(at, it->digits + 1, (size_t)it->count - 1);
        at += it->count - 1;
        *at++ = 'e';
        *at++ = it->exponent < 0 ? '-' : '+';
        *at++ = (char)('0' + size / 10);
        *at++ = (char)('0' + size % 10);
        return (size_t)(at - text);
    }
    if (whole <= 0) {
        memcpy(at, "0.0000", (size_t)(2 - whole));
        at += 2 - whole;
        memcpy(at, it->digits, (size_t)it->count);
        return (size_t)(at + it->count - text);
    }
    for (int i = 0; i < whole; i++)
        *at++ = i < it->count ? it->digits[i] : '0';
    if (it->count > whole) {
        *at++ = '.';
        memcpy(at, it->digits + whole, (size_t)(it->count - whole));
        at += it->count - whole;
    }
    return (size_t)(at - text);
}

// The program's locale may write and read another decimal point.
static void use_point(char *text)
{
    const char *radix = nl_langinfo(RADIXCHAR);
    char *found = radix[0] != '.' && radix[0] != '\0' ? strstr(text, radix) : NULL;
    if (found == NULL)
        return;
    *found = '.';
    memmove(found + 1, found + strlen(radix), strlen(found + strlen(radix)) + 1);
}

size_t trp_decimal_write(double value, bool single, char text[TRP_DECIMAL_MAX])
{
    decimal found;
    char whole[TRP_DECIMAL_MAX + 8]; // A point of another locale may be several bytes.
    if (!single && find_digits(fabs(value), &found)) {
        text[0] = '-';
        return signbit(value) ? 1 + put(&found, text + 1) : put(&found, text);
    }
    int most = single ? FLOAT_DIGITS : DIGITS;
    for (int digits = single ? FLOAT_PRECISION : PRECISION; digits <= most; digits++) {
        (void)snprintf(whole, sizeof whole, "%.*g", digits, value);
        double back = strtod(whole, NULL);
        if (single ? (float)back == (float)value : back == value)
            break;
    }
    use_point(whole);
    size_t size = strnlen(whole, TRP_DECIMAL_MAX);
    memcpy(text, whole, size);
    return size;
}

// ---- reading

// All digits as one integer, and the power of 10 that it is to be multiplied by. False: more than
// fits, or no such text.
static bool take_digits(const char *text, size_t size, uint64_t *amount, int *power)
{
    enum { POWER_MOST = 1000 };
    size_t at = 0, digits = 0;
    bool behind = false;
    *amount = 0;
    *power = 0;
    for (; at < size && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); at++) {
        if (text[at] == '.') {
            if (behind)
                return false;
            behind = true;
            continue;
        }
        digits += *amount > 0 || text[at] != '0';
        if (digits > TENS)
            return false;
        *amount = *amount * 10 + (uint64_t)(text[at] - '0');
        *power -= behind;
    }
    if (at == 0 || at == size)
        return at > 0;
    if (text[at] != 'e' && text[at] != 'E')
        return false;
    bool down = ++at < size && text[at] == '-';
    at += at < size && (text[at] == '-' || text[at] == '+');
    if (at == size)
        return false;
    int given = 0;
    for (size_t first = at; at < size; at++) {
        if (text[at] < '0' || text[at] > '9' || at - first > 3)
            return false;
        given = given * 10 + (text[at] - '0');
    }
    *power += down ? -given : given;
    return *power > -POWER_MOST && *power < POWER_MOST;
}

// amount / 10^power, rounded once.
static double divide(uint64_t amount, int power)
{
    uint64_t ten = fives[power] << power;
    int up = __builtin_clzll(amount);
    wide above = (wide)(amount << up) << 64;
    wide quotient = above / ten; // At least 63 bits.
    bool rest = quotient * ten != above;
    int bits = (quotient >> 64) != 0 ? 128 - __builtin_clzll((uint64_t)(quotient >> 64))
                                     : 64 - __builtin_clzll((uint64_t)quotient);
    int drop = bits - DOUBLE_BITS;
    uint64_t kept = (uint64_t)(quotient >> drop);
    wide dropped = quotient & (((wide)1 << drop) - 1), half = (wide)1 << (drop - 1);
    if (dropped > half || (dropped == half && (rest || (kept & 1) != 0)))
        kept++;
    return ldexp((double)kept, drop - 64 - up);
}

bool trp_decimal_read(const char *text, size_t size, double *value)
{
    uint64_t amount;
    int power;
    bool negative = size > 0 && text[0] == '-';
    if (!take_digits(text + negative, size - negative, &amount, &power))
        return false;
    double found = (double)amount;
    bool exact = amount <= (uint64_t)1 << DOUBLE_BITS;
    if (amount == 0 || power == 0) {
        ; // Rounded once, where it is.
    } else if (power > 0 && power <= TENS_EXACT && exact) {
        static const double tens[TENS_EXACT + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        found *= tens[power];
    } else if (power < 0 && power >= -TENS) {
        found = divide(amount, -power);
    } else {
        return false;
    }
    *value = negative ? -found : found;
    return true;
}
