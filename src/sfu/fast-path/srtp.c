// The keys of a worker's connections by number, and SRTP and SRTCP of one packet at a time by libcrypto (RFC 3711, RFC 7714), except
// for packets that gcm.c protects. wire/srtp/srtp.ts is the reference in TypeScript. No argument of an exported function is trusted:
// every number is checked against the memory that it points into.

#include "srtp.h"

#include <openssl/crypto.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HEAD_BYTES == GCM_STRIDE, "fast-path.h");

// native-srtp.ts lays keys out the same way: 16 bytes of AES key, 14 of salt (the last two unused by GCM) and 20 of HMAC key for RTP,
// then the same for RTCP.
#define HALF_KEY_BYTES 50u
#define KEY_BYTES (2 * HALF_KEY_BYTES)

#define CM_TAG_BYTES 10u
#define SHA1_BLOCK_BYTES 64u
#define MAX_CIPHERS (1u << 20)

static void free_cipher(cipher *c) {
  if (!c) return;
  EVP_CIPHER_CTX_free(c->rtp.aes);
  EVP_CIPHER_CTX_free(c->rtcp.aes);
  OPENSSL_cleanse(c, sizeof *c);
  free(c);
}

void free_ciphers(engine *e) {
  for (uint32_t i = 0; i < e->capacity; i++) free_cipher(e->ciphers[i]);
  free(e->ciphers);
}

cipher *find_cipher(const engine *e, uint32_t number) {
  return e && number > 0 && number <= e->capacity ? e->ciphers[number - 1] : NULL;
}

static int grow(engine *e) {
  uint32_t capacity = e->capacity ? e->capacity * 2 : 64;
  if (capacity > MAX_CIPHERS) return 0;
  cipher **ciphers = realloc(e->ciphers, capacity * sizeof *ciphers);
  if (!ciphers) return 0;
  memset(ciphers + e->capacity, 0, (capacity - e->capacity) * sizeof *ciphers);
  e->ciphers = ciphers;
  e->capacity = capacity;
  return 1;
}

static void start_hash(SHA_CTX *hash, const uint8_t *key, uint8_t pad) {
  uint8_t block[SHA1_BLOCK_BYTES];
  memset(block, pad, sizeof block);
  for (uint32_t i = 0; i < SHA1_BYTES; i++) block[i] ^= key[i];
  SHA1_Init(hash);
  SHA1_Update(hash, block, sizeof block);
  OPENSSL_cleanse(block, sizeof block);
}

static int set_keys(keys *k, const EVP_CIPHER *type, const uint8_t *from) {
  k->aes = EVP_CIPHER_CTX_new();
  if (!k->aes || EVP_CipherInit_ex(k->aes, type, NULL, from, NULL, 1) != 1) return 0;
  memcpy(k->salt, from + 16, sizeof k->salt);
  start_hash(&k->inner, from + 30, 0x36);
  start_hash(&k->outer, from + 30, 0x5c);
  return 1;
}

// Returns the number of the new cipher, or 0.
EXPORT uint32_t stoa_add_cipher(engine *e, uint32_t profile, const uint8_t *from, uint32_t bytes) {
  if (!e || !from || bytes != KEY_BYTES || (profile != PROFILE_GCM && profile != PROFILE_CM)) return 0;
  if (e->live == e->capacity && !grow(e)) return 0;
  while (e->ciphers[e->next_free % e->capacity]) e->next_free++;
  cipher *c = calloc(1, sizeof *c);
  if (!c) return 0;
  c->profile = profile;
  const EVP_CIPHER *type = profile == PROFILE_GCM ? e->gcm : e->ctr;
  if (!set_keys(&c->rtp, type, from) || !set_keys(&c->rtcp, type, from + HALF_KEY_BYTES)) {
    free_cipher(c);
    return 0;
  }
  c->uses_own_gcm = e->has_own_gcm && profile == PROFILE_GCM;
  if (c->uses_own_gcm) gcm_expand(&c->own_gcm, from);
  uint32_t index = e->next_free++ % e->capacity;
  e->ciphers[index] = c;
  e->live++;
  return index + 1;
}

EXPORT void stoa_remove_cipher(engine *e, uint32_t number) {
  cipher *c = find_cipher(e, number);
  if (!c) return;
  e->ciphers[number - 1] = NULL;
  e->live--;
  free_cipher(c);
}

EXPORT uint32_t stoa_live_ciphers(const engine *e) { return e ? e->live : 0; }

static int start_gcm(keys *k, const uint8_t *iv, const uint8_t *header, uint32_t header_length, int encrypt) {
  int done;
  return EVP_CipherInit_ex(k->aes, NULL, NULL, NULL, iv, encrypt) == 1 &&
         EVP_CipherUpdate(k->aes, NULL, &done, header, (int)header_length) == 1;
}

// RFC 7714 §8.1: 00 00 SSRC ROC SEQ, XOR salt.
static void write_rtp_iv(uint8_t *iv, const keys *k, const uint8_t *packet, uint32_t rollover) {
  iv[0] = iv[1] = 0;
  memcpy(iv + 2, packet + 8, 4);
  write32(iv + 6, rollover);
  memcpy(iv + 10, packet + 2, 2);
  for (int i = 0; i < 12; i++) iv[i] ^= k->salt[i];
}

static int start_rtp_gcm(keys *k, const uint8_t *packet, uint32_t header_length, uint32_t rollover, int encrypt) {
  uint8_t iv[12];
  write_rtp_iv(iv, k, packet, rollover);
  return start_gcm(k, iv, packet, header_length, encrypt);
}

// RFC 7714 §9.1: 00 00 SSRC 00 00 index, XOR salt. §17: the E flag and the index are authenticated behind the header, although
// they travel behind the tag.
static int start_rtcp_gcm(keys *k, const uint8_t *packet, uint32_t index, int encrypt) {
  uint8_t iv[12] = {0}, header[RTCP_HEADER_BYTES + RTCP_INDEX_BYTES];
  memcpy(iv + 2, packet + 4, 4);
  write32(iv + 8, index);
  for (int i = 0; i < 12; i++) iv[i] ^= k->salt[i];
  memcpy(header, packet, RTCP_HEADER_BYTES);
  write32(header + RTCP_HEADER_BYTES, index | RTCP_ENCRYPTED);
  return start_gcm(k, iv, header, sizeof header, encrypt);
}

static int seal_gcm(keys *k, uint8_t *body, uint32_t bytes) {
  int done;
  return EVP_CipherUpdate(k->aes, body, &done, body, (int)bytes) == 1 &&
         EVP_CipherFinal_ex(k->aes, body + done, &done) == 1 &&
         EVP_CIPHER_CTX_ctrl(k->aes, EVP_CTRL_AEAD_GET_TAG, GCM_TAG_BYTES, body + bytes) == 1;
}

// The tag follows the body. With a wrong tag the body stays unchanged.
static int open_gcm(engine *e, keys *k, uint8_t *body, uint32_t bytes) {
  int done, rest;
  if (EVP_CipherUpdate(k->aes, e->scratch, &done, body, (int)bytes) != 1 ||
      EVP_CIPHER_CTX_ctrl(k->aes, EVP_CTRL_AEAD_SET_TAG, GCM_TAG_BYTES, body + bytes) != 1 ||
      EVP_CipherFinal_ex(k->aes, e->scratch + done, &rest) != 1)
    return 0;
  memcpy(body, e->scratch, bytes);
  return 1;
}

// RFC 3711 §4.1.1: salt·2¹⁶ XOR SSRC·2⁶⁴ XOR index·2¹⁶; the index is 48 bits, given as high 32 and low 16.
static int crypt_ctr(keys *k, const uint8_t *ssrc, uint32_t high, uint32_t low, uint8_t *body, uint32_t bytes) {
  uint8_t iv[16] = {0};
  int done;
  memcpy(iv + 4, ssrc, 4);
  write32(iv + 8, high);
  iv[12] = (uint8_t)(low >> 8);
  iv[13] = (uint8_t)low;
  for (int i = 0; i < 14; i++) iv[i] ^= k->salt[i];
  return EVP_CipherInit_ex(k->aes, NULL, NULL, NULL, iv, 1) == 1 &&
         EVP_CipherUpdate(k->aes, body, &done, body, (int)bytes) == 1;
}

static int crypt_rtp_ctr(keys *k, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover) {
  uint32_t sequence = (uint32_t)packet[2] << 8 | packet[3];
  return crypt_ctr(k, packet + 8, rollover, sequence, packet + header_length, length - header_length);
}

static int crypt_rtcp_ctr(keys *k, uint8_t *packet, uint32_t length, uint32_t index) {
  uint8_t *body = packet + RTCP_HEADER_BYTES;
  return crypt_ctr(k, packet + 4, index >> 16, index & 0xffff, body, length - RTCP_HEADER_BYTES);
}

// `suffix` is hashed too but not sent: the rollover counter of RTP.
static void authenticate(const keys *k, const uint8_t *packet, uint32_t length, const uint32_t *suffix, uint8_t *digest) {
  SHA_CTX hash = k->inner;
  SHA1_Update(&hash, packet, length);
  if (suffix) {
    uint8_t bytes[4];
    write32(bytes, *suffix);
    SHA1_Update(&hash, bytes, sizeof bytes);
  }
  SHA1_Final(digest, &hash);
  hash = k->outer;
  SHA1_Update(&hash, digest, SHA1_BYTES);
  SHA1_Final(digest, &hash);
}

static int has_tag(const keys *k, const uint8_t *packet, uint32_t length, const uint32_t *suffix) {
  uint8_t digest[SHA1_BYTES];
  authenticate(k, packet, length, suffix, digest);
  return CRYPTO_memcmp(digest, packet + length, CM_TAG_BYTES) == 0;
}

static void write_tag(const keys *k, uint8_t *packet, uint32_t length, const uint32_t *suffix) {
  uint8_t digest[SHA1_BYTES];
  authenticate(k, packet, length, suffix, digest);
  memcpy(packet + length, digest, CM_TAG_BYTES);
}

uint32_t protect_rtp(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover, const uint8_t *plain) {
  keys *k = &c->rtp;
  uint32_t bytes = length - header_length;
  if (c->uses_own_gcm) {
    uint8_t iv[12];
    write_rtp_iv(iv, k, packet, rollover);
    gcm_seal(&c->own_gcm, iv, packet, header_length, plain, packet + header_length, bytes);
    return length + GCM_TAG_BYTES;
  }
  if (plain && bytes > HEAD_BYTES) memcpy(packet + header_length + HEAD_BYTES, plain + HEAD_BYTES, bytes - HEAD_BYTES);
  if (c->profile == PROFILE_CM) {
    if (!crypt_rtp_ctr(k, packet, header_length, length, rollover)) return 0;
    write_tag(k, packet, length, &rollover);
    return length + CM_TAG_BYTES;
  }
  if (!start_rtp_gcm(k, packet, header_length, rollover, 1) || !seal_gcm(k, packet + header_length, bytes)) return 0;
  return length + GCM_TAG_BYTES;
}

uint32_t tag_bytes(const cipher *c) { return c->profile == PROFILE_GCM ? GCM_TAG_BYTES : CM_TAG_BYTES; }

// One packet at the start of a buffer of `capacity` bytes. Returns the protected length, or 0.
EXPORT uint32_t stoa_protect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length,
                             uint32_t length, uint32_t rollover) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || header_length < RTP_HEADER_BYTES || header_length > length || length > BUFFER_BYTES) return 0;
  if (capacity < length + tag_bytes(c)) return 0;
  return protect_rtp(c, packet, header_length, length, rollover, NULL);
}

int32_t unprotect_rtp(engine *e, cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover) {
  uint32_t end = length - tag_bytes(c);
  keys *k = &c->rtp;
  if (c->profile == PROFILE_CM)
    return has_tag(k, packet, end, &rollover) && crypt_rtp_ctr(k, packet, header_length, end, rollover) ? (int32_t)end : -1;
  return start_rtp_gcm(k, packet, header_length, rollover, 0) && open_gcm(e, k, packet + header_length, end - header_length)
             ? (int32_t)end
             : -1;
}

// Returns the plain length, or −1.
EXPORT int32_t stoa_unprotect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length,
                              uint32_t length, uint32_t rollover) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || header_length < RTP_HEADER_BYTES || length > capacity || length > BUFFER_BYTES) return -1;
  if (header_length > length || length - header_length < tag_bytes(c)) return -1;
  return unprotect_rtp(e, c, packet, header_length, length, rollover);
}

// RTCP has the tag before the index with GCM, and behind it with CM.
EXPORT uint32_t stoa_protect_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length,
                                  uint32_t index) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || length < RTCP_HEADER_BYTES || length > BUFFER_BYTES || index >= RTCP_ENCRYPTED) return 0;
  uint32_t end = length + tag_bytes(c) + RTCP_INDEX_BYTES;
  if (capacity < end) return 0;
  keys *k = &c->rtcp;
  if (c->profile == PROFILE_CM) {
    if (!crypt_rtcp_ctr(k, packet, length, index)) return 0;
    write32(packet + length, index | RTCP_ENCRYPTED);
    write_tag(k, packet, length + RTCP_INDEX_BYTES, NULL);
    return end;
  }
  if (!start_rtcp_gcm(k, packet, index, 1) || !seal_gcm(k, packet + RTCP_HEADER_BYTES, length - RTCP_HEADER_BYTES)) return 0;
  write32(packet + length + GCM_TAG_BYTES, index | RTCP_ENCRYPTED);
  return end;
}

uint32_t rtcp_index_at(const cipher *c, uint32_t length) {
  return length - RTCP_INDEX_BYTES - (c->profile == PROFILE_CM ? CM_TAG_BYTES : 0);
}

int32_t unprotect_rtcp(engine *e, cipher *c, uint8_t *packet, uint32_t length, uint32_t index) {
  uint32_t end = length - tag_bytes(c) - RTCP_INDEX_BYTES;
  keys *k = &c->rtcp;
  if (c->profile == PROFILE_CM)
    return has_tag(k, packet, end + RTCP_INDEX_BYTES, NULL) && crypt_rtcp_ctr(k, packet, end, index) ? (int32_t)end : -1;
  return start_rtcp_gcm(k, packet, index, 0) && open_gcm(e, k, packet + RTCP_HEADER_BYTES, end - RTCP_HEADER_BYTES)
             ? (int32_t)end
             : -1;
}

EXPORT int32_t stoa_unprotect_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length,
                                   uint32_t index) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || length > capacity || length > BUFFER_BYTES || index >= RTCP_ENCRYPTED) return -1;
  if (length < RTCP_HEADER_BYTES + tag_bytes(c) + RTCP_INDEX_BYTES) return -1;
  return unprotect_rtcp(e, c, packet, length, index);
}
