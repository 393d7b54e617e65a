// SRTP by libcrypto: keys, and one packet at a time. TypeScript (packet/srtp.ts) does all of this where no C compiler was at
// hand. Nothing given to a function here is trusted: every number is checked against the memory it points into.

#define OPENSSL_SUPPRESS_DEPRECATED

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

// Known to native-cipher.ts as well.
#define KEY_BYTES 50u
#define GCM_TAG_BYTES 16u
#define CM_TAG_BYTES 10u
enum { PROFILE_GCM = 1, PROFILE_CM = 2 };

#define SHA1_BLOCK_BYTES 64u
#define SHA1_BYTES 20u
#define MAX_CIPHERS (1u << 20)

struct cipher {
  uint32_t profile;
  EVP_CIPHER_CTX *aes;
  uint8_t salt[14];
  // HMAC as two hashes that have already taken in the padded key.
  SHA_CTX inner, outer;
};

struct engine {
  EVP_CIPHER *gcm, *ctr;
  cipher **ciphers;  // by number − 1; NULL where a number is free
  uint32_t capacity, live, next_free;
  uint8_t scratch[SLOT_BYTES];
};

static void write32(uint8_t *p, uint32_t value) {
  p[0] = (uint8_t)(value >> 24);
  p[1] = (uint8_t)(value >> 16);
  p[2] = (uint8_t)(value >> 8);
  p[3] = (uint8_t)value;
}

static void free_cipher(cipher *c) {
  if (!c) return;
  EVP_CIPHER_CTX_free(c->aes);
  OPENSSL_cleanse(c, sizeof *c);
  free(c);
}

EXPORT void stoa_close(engine *e) {
  if (!e) return;
  for (uint32_t i = 0; i < e->capacity; i++) free_cipher(e->ciphers[i]);
  free(e->ciphers);
  EVP_CIPHER_free(e->gcm);
  EVP_CIPHER_free(e->ctr);
  OPENSSL_cleanse(e->scratch, sizeof e->scratch);
  free(e);
}

EXPORT engine *stoa_open(void) {
  // Neither a configuration file of the machine nor a handler at exit: this library lives inside another program.
  if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL)) return NULL;
  engine *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->gcm = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
  e->ctr = EVP_CIPHER_fetch(NULL, "AES-128-CTR", NULL);
  if (!e->gcm || !e->ctr) {
    stoa_close(e);
    return NULL;
  }
  return e;
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

// `keys`: 16 bytes of AES key, 14 of salt (the last two unused by GCM), 20 of HMAC key. Returns its number, or 0.
EXPORT uint32_t stoa_add_cipher(engine *e, uint32_t profile, const uint8_t *keys, uint32_t bytes) {
  if (!e || !keys || bytes != KEY_BYTES || (profile != PROFILE_GCM && profile != PROFILE_CM)) return 0;
  if (e->live == e->capacity && !grow(e)) return 0;
  while (e->ciphers[e->next_free % e->capacity]) e->next_free++;
  cipher *c = calloc(1, sizeof *c);
  if (!c) return 0;
  c->profile = profile;
  c->aes = EVP_CIPHER_CTX_new();
  const EVP_CIPHER *type = profile == PROFILE_GCM ? e->gcm : e->ctr;
  if (!c->aes || EVP_CipherInit_ex(c->aes, type, NULL, keys, NULL, 1) != 1) {
    free_cipher(c);
    return 0;
  }
  memcpy(c->salt, keys + 16, sizeof c->salt);
  start_hash(&c->inner, keys + 30, 0x36);
  start_hash(&c->outer, keys + 30, 0x5c);
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

// RFC 7714 §8.1: 00 00 SSRC ROC SEQ, XOR salt.
static int start_gcm(cipher *c, const uint8_t *packet, uint32_t header_length, uint32_t rollover, int encrypt) {
  uint8_t iv[12] = {0};
  int done;
  memcpy(iv + 2, packet + 8, 4);
  write32(iv + 6, rollover);
  memcpy(iv + 10, packet + 2, 2);
  for (int i = 0; i < 12; i++) iv[i] ^= c->salt[i];
  return EVP_CipherInit_ex(c->aes, NULL, NULL, NULL, iv, encrypt) == 1 &&
         EVP_CipherUpdate(c->aes, NULL, &done, packet, (int)header_length) == 1;
}

// RFC 3711 §4.1.1: salt·2¹⁶ XOR SSRC·2⁶⁴ XOR index·2¹⁶.
static int crypt_ctr(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover) {
  uint8_t iv[16] = {0};
  int done;
  memcpy(iv + 4, packet + 8, 4);
  write32(iv + 8, rollover);
  memcpy(iv + 12, packet + 2, 2);
  for (int i = 0; i < 14; i++) iv[i] ^= c->salt[i];
  uint8_t *body = packet + header_length;
  return EVP_CipherInit_ex(c->aes, NULL, NULL, NULL, iv, 1) == 1 &&
         EVP_CipherUpdate(c->aes, body, &done, body, (int)(length - header_length)) == 1;
}

static void authenticate(const cipher *c, const uint8_t *packet, uint32_t length, uint32_t rollover, uint8_t *digest) {
  uint8_t suffix[4];
  SHA_CTX hash = c->inner;
  write32(suffix, rollover);
  SHA1_Update(&hash, packet, length);
  SHA1_Update(&hash, suffix, sizeof suffix);
  SHA1_Final(digest, &hash);
  hash = c->outer;
  SHA1_Update(&hash, digest, SHA1_BYTES);
  SHA1_Final(digest, &hash);
}

uint32_t seal(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover) {
  if (c->profile == PROFILE_CM) {
    uint8_t digest[SHA1_BYTES];
    if (!crypt_ctr(c, packet, header_length, length, rollover)) return 0;
    authenticate(c, packet, length, rollover, digest);
    memcpy(packet + length, digest, CM_TAG_BYTES);
    return length + CM_TAG_BYTES;
  }
  uint8_t *body = packet + header_length;
  int done;
  if (!start_gcm(c, packet, header_length, rollover, 1) ||
      EVP_CipherUpdate(c->aes, body, &done, body, (int)(length - header_length)) != 1 ||
      EVP_CipherFinal_ex(c->aes, body + done, &done) != 1 ||
      EVP_CIPHER_CTX_ctrl(c->aes, EVP_CTRL_AEAD_GET_TAG, GCM_TAG_BYTES, packet + length) != 1)
    return 0;
  return length + GCM_TAG_BYTES;
}

uint32_t tag_bytes(const cipher *c) { return c->profile == PROFILE_GCM ? GCM_TAG_BYTES : CM_TAG_BYTES; }

// One packet at the start of a buffer of `capacity` bytes. Returns the protected length, or 0.
EXPORT uint32_t stoa_protect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length,
                             uint32_t length, uint32_t rollover) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || header_length < RTP_HEADER_BYTES || header_length > length || length > SLOT_BYTES) return 0;
  if (capacity < length + tag_bytes(c)) return 0;
  return seal(c, packet, header_length, length, rollover);
}

// Opens the packet in place. Returns the plain length, or −1: then not a byte of it has changed.
EXPORT int32_t stoa_unprotect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length,
                              uint32_t length, uint32_t rollover) {
  cipher *c = find_cipher(e, number);
  if (!c || !packet || header_length < RTP_HEADER_BYTES || length > capacity || length > SLOT_BYTES) return -1;
  if (header_length > length || length - header_length < tag_bytes(c)) return -1;
  uint32_t end = length - tag_bytes(c);
  if (c->profile == PROFILE_CM) {
    uint8_t digest[SHA1_BYTES];
    authenticate(c, packet, end, rollover, digest);
    if (CRYPTO_memcmp(digest, packet + end, CM_TAG_BYTES) != 0) return -1;
    return crypt_ctr(c, packet, header_length, end, rollover) ? (int32_t)end : -1;
  }
  int done, rest;
  if (!start_gcm(c, packet, header_length, rollover, 0) ||
      EVP_CipherUpdate(c->aes, e->scratch, &done, packet + header_length, (int)(end - header_length)) != 1 ||
      EVP_CIPHER_CTX_ctrl(c->aes, EVP_CTRL_AEAD_SET_TAG, GCM_TAG_BYTES, packet + end) != 1 ||
      EVP_CipherFinal_ex(c->aes, e->scratch + done, &rest) != 1)
    return -1;
  memcpy(packet + header_length, e->scratch, end - header_length);
  return (int32_t)end;
}
