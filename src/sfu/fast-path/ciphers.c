// The keys of a worker's connections, by number. Nothing given to a function here is trusted: every number is checked against
// the memory it points into.

#include "cipher.h"

#include <openssl/crypto.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Known to native-cipher.ts as well: 16 bytes of AES key, 14 of salt (the last two unused by GCM), 20 of HMAC key; for packets
// of media, then the same for those of control.
#define HALF_KEY_BYTES 50u
#define KEY_BYTES (2 * HALF_KEY_BYTES)

#define SHA1_BLOCK_BYTES 64u
#define MAX_CIPHERS (1u << 20)

static void free_cipher(cipher *c) {
  if (!c) return;
  EVP_CIPHER_CTX_free(c->rtp.aes);
  EVP_CIPHER_CTX_free(c->rtcp.aes);
  OPENSSL_cleanse(c, sizeof *c);
  free(c);
}

EXPORT void stoa_close(engine *e) {
  if (!e) return;
  for (uint32_t i = 0; i < e->capacity; i++) free_cipher(e->ciphers[i]);
  free(e->ciphers);
  free_receivers(e);
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
  e->is_quick = gcm_is_at_hand();
  if (!e->gcm || !e->ctr) {
    stoa_close(e);
    return NULL;
  }
  return e;
}

cipher *find_cipher(const engine *e, uint32_t number) {
  return e && number > 0 && number <= e->capacity ? e->ciphers[number - 1] : NULL;
}

#define LINE_BYTES 64u

void fetch_cipher(const engine *e, uint32_t number) {
  const char *c = (const char *)find_cipher(e, number);
  for (uint32_t at = 0; c && at < offsetof(cipher, rtp.inner); at += LINE_BYTES) __builtin_prefetch(c + at);
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

static int take_keys(keys *k, const EVP_CIPHER *type, const uint8_t *from) {
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
  if (!take_keys(&c->rtp, type, from) || !take_keys(&c->rtcp, type, from + HALF_KEY_BYTES)) {
    free_cipher(c);
    return 0;
  }
  c->is_quick = e->is_quick && profile == PROFILE_GCM;
  if (c->is_quick) gcm_expand(&c->sealing, from);
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
