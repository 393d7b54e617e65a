// Protects packets with the AES and carry-less multiplication instructions of x86-64. libcrypto has them too, but it takes as long to
// begin and end a packet as to encrypt one, and it needs the packet copied before. libcrypto opens packets, and does everything on
// other processors: byte for byte the same. No branch and no address depends on a key or on what is encrypted.

#include <string.h>

#include "srtp.h"

#if defined(__x86_64__)

#include <immintrin.h>

// The last byte of a counter block is the only one that changes.
_Static_assert(BUFFER_BYTES / 16 + 2 < 256, "a packet has more blocks than are counted");

#define ON_AVX __attribute__((target("aes,pclmul,avx")))
#define IN_LINE ON_AVX static inline __attribute__((always_inline))
#define BLOCKS 8u
#define EACH_BLOCK(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

int gcm_is_available(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx");
}

IN_LINE __m128i load(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)from); }

IN_LINE void store(uint8_t *to, __m128i block) { _mm_storeu_si128((__m128i *)to, block); }

IN_LINE __m128i counted(__m128i counter, char blocks) {
  return _mm_add_epi8(counter, _mm_set_epi8(blocks, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

IN_LINE __m128i reversed(__m128i block) {
  return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

// A sum of products of 128-bit numbers, each as low, middle and high part; `middle` overlaps both others by half.
typedef struct {
  __m128i low, middle, high;
} product;

IN_LINE void add_product(product *sum, __m128i a, __m128i b) {
  sum->low = _mm_xor_si128(sum->low, _mm_clmulepi64_si128(a, b, 0x00));
  sum->high = _mm_xor_si128(sum->high, _mm_clmulepi64_si128(a, b, 0x11));
  sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x01));
  sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x10));
}

// RFC 8452, §3: the product divided by x¹²⁸, modulo x¹²⁸ + x¹²⁷ + x¹²⁶ + x¹²¹ + 1.
IN_LINE __m128i reduced(product sum) {
  const __m128i polynomial = _mm_set_epi64x((int64_t)0xc200000000000000, 1);
  __m128i low = _mm_xor_si128(sum.low, _mm_slli_si128(sum.middle, 8));
  __m128i high = _mm_xor_si128(sum.high, _mm_srli_si128(sum.middle, 8));
  for (int i = 0; i < 2; i++)
    low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, polynomial, 0x10));
  return _mm_xor_si128(low, high);
}

// Continues a hash with whole blocks, at most a stride of them. With the bytes of each block reversed, GHASH is POLYVAL (RFC 8452,
// Appendix A).
IN_LINE __m128i hashed(const gcm_key *k, __m128i hash, const uint8_t *from, uint32_t blocks) {
  product sum = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
  for (uint32_t i = 0; i < blocks; i++) {
    __m128i block = reversed(load(from + 16 * i));
    add_product(&sum, i == 0 ? _mm_xor_si128(block, hash) : block, load(k->powers[blocks - 1 - i]));
  }
  return blocks == 0 ? hash : reduced(sum);
}

IN_LINE __m128i encrypted(const gcm_key *k, __m128i block) {
  block = _mm_xor_si128(block, load(k->rounds[0]));
  for (int i = 1; i < 10; i++) block = _mm_aesenc_si128(block, load(k->rounds[i]));
  return _mm_aesenclast_si128(block, load(k->rounds[10]));
}

IN_LINE __m128i next_round_key(__m128i key, __m128i assisted) {
  for (int i = 0; i < 3; i++) key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  return _mm_xor_si128(key, _mm_shuffle_epi32(assisted, 0xff));
}

#define ROUND_KEY(number, constant)                                                   \
  round = next_round_key(round, _mm_aeskeygenassist_si128(round, constant)); \
  store(to->rounds[number], round);

ON_AVX void gcm_expand(gcm_key *to, const uint8_t *key) {
  __m128i round = load(key);
  store(to->rounds[0], round);
  ROUND_KEY(1, 0x01) ROUND_KEY(2, 0x02) ROUND_KEY(3, 0x04) ROUND_KEY(4, 0x08) ROUND_KEY(5, 0x10)
  ROUND_KEY(6, 0x20) ROUND_KEY(7, 0x40) ROUND_KEY(8, 0x80) ROUND_KEY(9, 0x1b) ROUND_KEY(10, 0x36)
  // The key of GHASH times x is the key of POLYVAL.
  __m128i first = reversed(encrypted(to, _mm_setzero_si128()));
  __m128i carries = _mm_slli_si128(_mm_srli_epi64(first, 63), 8);
  __m128i overflow = _mm_shuffle_epi32(_mm_srai_epi32(first, 31), 0xff);
  __m128i polynomial = _mm_set_epi64x((int64_t)0xc200000000000000, 1);
  first = _mm_or_si128(_mm_add_epi64(first, first), carries);
  first = _mm_xor_si128(first, _mm_and_si128(overflow, polynomial));
  __m128i power = first;
  store(to->powers[0], first);
  for (uint32_t i = 1; i < BLOCKS; i++) {
    product sum = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    add_product(&sum, power, first);
    power = reduced(sum);
    store(to->powers[i], power);
  }
}

#define COUNT(i) __m128i b##i = _mm_xor_si128(counted(*counter, i), key);
#define ROUND(i) b##i = _mm_aesenc_si128(b##i, key);
#define LAST_ROUND(i) store(out + 16 * i, _mm_xor_si128(load(in + 16 * i), _mm_aesenclast_si128(b##i, key)));
// One round of AES for a whole stride and, on the processor's other units, the hash of one block of the stride before.
#define ROUND_AND_HASH(number)                                                                                \
  key = load(k->rounds[number]);                                                                              \
  EACH_BLOCK(ROUND)                                                                                           \
  if (number <= 8) {                                                                                          \
    __m128i block = reversed(load(before + 16 * (number - 1)));                                               \
    if (number == 1) block = _mm_xor_si128(block, *hash);                                                     \
    add_product(&sum, block, load(k->powers[8 - (number <= 8 ? number : 8)]));                                \
  }

// Encrypts a stride, and hashes the stride before it, which is already encrypted.
IN_LINE void stride(const gcm_key *k, __m128i *counter, __m128i *hash, const uint8_t *before, const uint8_t *in, uint8_t *out) {
  product sum = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
  __m128i key = load(k->rounds[0]);
  EACH_BLOCK(COUNT)
  ROUND_AND_HASH(1) ROUND_AND_HASH(2) ROUND_AND_HASH(3) ROUND_AND_HASH(4) ROUND_AND_HASH(5)
  ROUND_AND_HASH(6) ROUND_AND_HASH(7) ROUND_AND_HASH(8) ROUND_AND_HASH(9)
  key = load(k->rounds[10]);
  EACH_BLOCK(LAST_ROUND)
  *hash = reduced(sum);
  *counter = counted(*counter, BLOCKS);
}

// The first `bytes` of a block, and zeros behind them.
IN_LINE __m128i first_bytes(__m128i block, uint32_t bytes) {
  static const uint8_t ONES_AND_ZEROS[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  return _mm_and_si128(block, load(ONES_AND_ZEROS + 16 - bytes));
}

// The hash of a header except its last stride, which is left in `last` and hashed while the body is encrypted. A header shorter
// than a stride gets leading zeros, which do not change a hash that has not begun.
IN_LINE __m128i hashed_header(const gcm_key *k, const uint8_t *header, uint32_t bytes, uint8_t *last) {
  __m128i hash = _mm_setzero_si128();
  for (uint32_t blocks = (bytes + 15) / 16; blocks > BLOCKS; blocks = (bytes + 15) / 16) {
    uint32_t first = (blocks - 1) % BLOCKS + 1;
    hash = hashed(k, hash, header, first);
    header += 16 * first;
    bytes -= 16 * first;
  }
  memset(last, 0, GCM_STRIDE);
  memcpy(last + GCM_STRIDE - (bytes + 15) / 16 * 16, header, bytes);
  return hash;
}

ON_AVX void gcm_seal(const gcm_key *k, const uint8_t *iv, const uint8_t *header, uint32_t header_bytes, const uint8_t *plain,
                     uint8_t *body, uint32_t bytes) {
  uint8_t first[16] = {0}, head[GCM_STRIDE], rest[GCM_STRIDE + 16] = {0};
  memcpy(first, iv, 12);
  first[15] = 1;
  __m128i counter = load(first), hash = hashed_header(k, header, header_bytes, head);
  __m128i mask = encrypted(k, counter);
  counter = counted(counter, 1);
  const uint8_t *before = head;
  uint32_t at = 0;
  for (; bytes - at >= GCM_STRIDE; at += GCM_STRIDE) {
    stride(k, &counter, &hash, before, (plain && at > 0 ? plain : body) + at, body + at);
    before = body + at;
  }
  // The rest of the body is handled as a full stride, followed by the lengths. Writing whole blocks is safe, because the tag comes
  // behind.
  uint32_t left = bytes - at, blocks = (left + 15) / 16;
  memcpy(rest, (plain && at > 0 ? plain : body) + at, left);
  stride(k, &counter, &hash, before, rest, rest);
  for (uint32_t i = 0; i < blocks; i++) store(body + at + 16 * i, load(rest + 16 * i));
  if (left % 16) store(rest + 16 * (blocks - 1), first_bytes(load(rest + 16 * (blocks - 1)), left % 16));
  store(rest + 16 * blocks, reversed(_mm_set_epi64x((int64_t)header_bytes * 8, (int64_t)bytes * 8)));
  if (blocks == BLOCKS) {
    hash = hashed(k, hash, rest, 1);
    hash = hashed(k, hash, rest + 16, BLOCKS);
  } else {
    hash = hashed(k, hash, rest, blocks + 1);
  }
  store(body + bytes, _mm_xor_si128(reversed(hash), mask));
}

#else

int gcm_is_available(void) { return 0; }

void gcm_expand(gcm_key *to, const uint8_t *key) {
  (void)key;
  memset(to, 0, sizeof *to);
}

// Never called on these processors, because gcm_is_available returns 0.
void gcm_seal(const gcm_key *k, const uint8_t *iv, const uint8_t *header, uint32_t header_bytes, const uint8_t *plain,
              uint8_t *body, uint32_t bytes) {
  (void)k, (void)iv, (void)header, (void)header_bytes, (void)plain, (void)body, (void)bytes;
}

#endif
