/*
 * A layer over SQLite's file access that puts a checksum into the last eight bytes of every page that it writes, and
 * refuses a page whose checksum differs. The format is that of SQLite's own extension cksumvfs. A page in the
 * write-ahead log has the checksum of its frame, which SQLite verifies only after a crash.
 *
 * The layer also writes all frames of a commit together: SQLite makes two system calls for each frame, which cost more
 * than copying the page.
 *
 * The declarations are those of sqlite3.h, whose layout never changes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct sqlite3_file sqlite3_file;
typedef struct sqlite3_vfs sqlite3_vfs;

typedef struct {
  int version;
  int (*xClose)(sqlite3_file *);
  int (*xRead)(sqlite3_file *, void *, int, int64_t);
  int (*xWrite)(sqlite3_file *, const void *, int, int64_t);
  int (*xTruncate)(sqlite3_file *, int64_t);
  int (*xSync)(sqlite3_file *, int);
  int (*xFileSize)(sqlite3_file *, int64_t *);
  int (*xLock)(sqlite3_file *, int);
  int (*xUnlock)(sqlite3_file *, int);
  int (*xCheckReservedLock)(sqlite3_file *, int *);
  int (*xFileControl)(sqlite3_file *, int, void *);
  int (*xSectorSize)(sqlite3_file *);
  int (*xDeviceCharacteristics)(sqlite3_file *);
  int (*xShmMap)(sqlite3_file *, int, int, int, void volatile **);
  int (*xShmLock)(sqlite3_file *, int, int, int);
  void (*xShmBarrier)(sqlite3_file *);
  int (*xShmUnmap)(sqlite3_file *, int);
  int (*xFetch)(sqlite3_file *, int64_t, int, void **);
  int (*xUnfetch)(sqlite3_file *, int64_t, void *);
} Methods;

struct sqlite3_file {
  const Methods *methods;
};

struct sqlite3_vfs {
  int version, fileBytes, maxPath;
  sqlite3_vfs *next;
  const char *name;
  void *data;
  int (*xOpen)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
  void (*others[15])(void);
};

/* Functions of sqlite3_api_routines, by their number. */
enum { API_VFS_FIND = 141, API_VFS_REGISTER = 142, API_DATABASE_FILE = 251 };

enum {
  OK = 0,
  CORRUPT = 11,
  LOADED_PERMANENTLY = 256,
  OPEN_MAIN_DB = 0x100,
  OPEN_WAL = 0x80000,
  FCNTL_CHECKPOINT_DONE = 37,
  FCNTL_CHECKPOINT_START = 39,
  READS_PARTS_OF_PAGES = 0x8000,
  SHM_LOCK = 2,
  SHM_EXCLUSIVE = 8,
  SHM_WRITER = 0,
};

enum { HEADER = 100, CHECKSUM = 8, RESERVED_AT = 20, PAGE_SIZE_AT = 16, APPLICATION_AT = 68 };
enum { WAL_HEADER = 32, FRAME_HEADER = 24 };
enum { MAX_PAGE = 65536, MAX_PENDING = 2 * MAX_PAGE };
enum { ATTEMPTS = 3 };
/* The file control that makes this layer trust every page from now on; a number that neither SQLite nor its other layers use. */
enum { FCNTL_TRUST_PAGES = 0x53746f61 };
/*
 * Takes the place of the checksum in memory, and so in the write-ahead log. If another program copies such a page into the
 * database, these bytes stay in it.
 */
static const char UNSEALED[] = "unsealed";
static const char MAGIC[16] = "SQLite format 3";
static const char APPLICATION[4] = {'S', 't', 'o', 'a'};

/* What this layer knows about an open file, stored behind SQLite's own structure. */
typedef struct {
  const Methods *original;
  Methods methods;
  /* For a write-ahead log, its database; for a database, its log once that is open. */
  sqlite3_file *database, *log;
  /* Frames that are not written yet: they follow each other, and none of them ends a commit. */
  char *pending;
  int pendingBytes, isCommit;
  int64_t pendingAt, end;
  int pageBytes;
  /* Whether the first page has been read or written, which determines the two other fields. */
  int isKnown, writes, verifies;
  int checkpoints, isWriter, hasLocks;
} State;

static sqlite3_vfs *original;
static sqlite3_vfs layer;
static volatile int trustsPages;
static sqlite3_file *(*databaseOf)(const char *);

static State *stateOf(sqlite3_file *file) { return (State *)((char *)file + original->fileBytes); }

static int isPage(int bytes) { return bytes >= 512 && (bytes & (bytes - 1)) == 0; }

static void add(const void *data, int bytes, uint32_t sum[2]) {
  const uint8_t *at = data;
  uint32_t s1 = sum[0], s2 = sum[1], words[2];
  for (int i = 0; i < bytes; i += 8) {
    memcpy(words, at + i, 8);
    s1 += words[0] + s2;
    s2 += words[1] + s1;
  }
  sum[0] = s1, sum[1] = s2;
}

static void checksum(const void *page, int bytes, uint32_t sum[2]) {
  sum[0] = sum[1] = 0;
  add(page, bytes - CHECKSUM, sum);
}

static int isIntact(const void *page, int bytes) {
  uint32_t sum[2];
  checksum(page, bytes, sum);
  return memcmp((const char *)page + bytes - CHECKSUM, sum, CHECKSUM) == 0;
}

static void seal(void *page, int bytes) {
  uint32_t sum[2];
  checksum(page, bytes, sum);
  memcpy((char *)page + bytes - CHECKSUM, sum, CHECKSUM);
}

static void unseal(void *page, int bytes) { memcpy((char *)page + bytes - CHECKSUM, UNSEALED, CHECKSUM); }

/* A page that was new when it was logged has zeros in place of the checksum. A page that the disk has lost is all zeros. */
static int isUnsealed(const void *page, int bytes) {
  static const char zeros[CHECKSUM];
  const char *data = page, *end = data + bytes - CHECKSUM;
  if (memcmp(end, UNSEALED, CHECKSUM) == 0) return 1;
  return memcmp(end, zeros, CHECKSUM) == 0 && (data[0] != 0 || memcmp(data, data + 1, bytes - 1) != 0);
}

/*
 * Adds checksums to pages that were written before the first page of a new file: when SQLite's cache is full, it writes other pages
 * first.
 */
static int sealEarlier(sqlite3_file *file, State *state) {
  static _Thread_local char page[MAX_PAGE];
  int64_t size = 0;
  int rc = state->original->xFileSize(file, &size);
  for (int64_t at = state->pageBytes; rc == OK && at + state->pageBytes <= size; at += state->pageBytes) {
    rc = state->original->xRead(file, page, state->pageBytes, at);
    if (rc != OK) break;
    seal(page, state->pageBytes);
    rc = state->original->xWrite(file, page, state->pageBytes, at);
  }
  return rc;
}

/* Returns whether the header in the first page contradicts itself. */
static int readHeader(State *state, const void *data) {
  const uint8_t *header = data;
  if (memcmp(header, MAGIC, sizeof MAGIC) != 0) return 0;
  int pageBytes = header[PAGE_SIZE_AT] << 8 | header[PAGE_SIZE_AT + 1];
  state->pageBytes = pageBytes == 1 ? 65536 : pageBytes;
  state->isKnown = 1;
  state->writes = header[RESERVED_AT] == CHECKSUM;
  state->verifies = memcmp(header + APPLICATION_AT, APPLICATION, sizeof APPLICATION) == 0;
  return state->verifies && !state->writes;
}

static int readPage(sqlite3_file *file, void *data, int bytes, int64_t offset) {
  State *state = stateOf(file);
  int rc = state->original->xRead(file, data, bytes, offset);
  if (rc != OK) return rc;
  if (offset == 0 && bytes >= HEADER && readHeader(state, data)) return CORRUPT;
  if (!state->writes || !isPage(bytes)) return OK;
  int isTrusted = !state->verifies || trustsPages || isUnsealed(data, bytes);
  /* While deleted content is overwritten, another thread may read one half of a page before and the other half after. */
  for (int attempt = 0; !isTrusted && !isIntact(data, bytes); attempt++) {
    if (attempt == ATTEMPTS) return CORRUPT;
    rc = state->original->xRead(file, data, bytes, offset);
    if (rc != OK) return rc;
  }
  unseal(data, bytes);
  return OK;
}

static int writePage(sqlite3_file *file, const void *data, int bytes, int64_t offset) {
  State *state = stateOf(file);
  if (offset == 0 && bytes >= HEADER) {
    int isFirst = !state->isKnown;
    readHeader(state, data);
    if (isFirst && state->writes) {
      int rc = sealEarlier(file, state);
      if (rc != OK) return rc;
    }
  }
  /* SQLite's own copy of the page does not use these bytes. */
  if (!state->writes || !isPage(bytes)) return state->original->xWrite(file, data, bytes, offset);
  seal((void *)data, bytes);
  int rc = state->original->xWrite(file, data, bytes, offset);
  unseal((void *)data, bytes);
  return rc;
}

static uint32_t bigEndian(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/*
 * Verifies the checksum of a frame, which continues that of the frame before it. The first frame continues the checksum of the
 * file's header.
 */
static int isFrameIntact(sqlite3_file *file, const void *page, int bytes, int64_t offset) {
  State *state = stateOf(file);
  int64_t frame = offset - FRAME_HEADER;
  if (frame < WAL_HEADER || (frame - WAL_HEADER) % (bytes + FRAME_HEADER) != 0) return 1;
  uint8_t header[FRAME_HEADER], before[CHECKSUM];
  int64_t beforeAt = frame == WAL_HEADER ? WAL_HEADER - CHECKSUM : frame - bytes - CHECKSUM;
  if (state->original->xRead(file, header, FRAME_HEADER, frame) != OK) return 0;
  if (state->original->xRead(file, before, CHECKSUM, beforeAt) != OK) return 0;
  uint32_t sum[2] = {bigEndian(before), bigEndian(before + 4)};
  add(header, 8, sum);
  add(page, bytes, sum);
  return sum[0] == bigEndian(header + 16) && sum[1] == bigEndian(header + 20);
}

static int writePending(sqlite3_file *file) {
  State *state = stateOf(file);
  int bytes = state->pendingBytes;
  state->pendingBytes = 0;
  if (bytes == 0) return OK;
  int rc = state->original->xWrite(file, state->pending, bytes, state->pendingAt);
  if (rc != OK) state->end = -1;
  return rc;
}

static void addPending(State *state, const void *data, int bytes) {
  memcpy(state->pending + state->pendingBytes, data, bytes);
  state->pendingBytes += bytes;
  state->end += bytes;
}

/*
 * A frame that directly follows the last one is held back: its header until the page is written, and both until the end
 * of the commit, because no other connection reads them earlier.
 */
static int writeLog(sqlite3_file *file, const void *data, int bytes, int64_t offset) {
  State *state = stateOf(file);
  int isHeader = bytes == FRAME_HEADER && offset == state->end;
  int isPageOfHeader = state->pendingBytes > 0 && offset == state->end && isPage(bytes);
  if (isHeader) {
    int rc = state->pendingBytes + FRAME_HEADER + MAX_PAGE > MAX_PENDING ? writePending(file) : OK;
    if (rc != OK) return rc;
    if (state->pending == NULL) state->pending = malloc(MAX_PENDING);
    if (state->pending != NULL) {
      if (state->pendingBytes == 0) state->pendingAt = offset;
      addPending(state, data, bytes);
      state->isCommit = bigEndian((const uint8_t *)data + 4) != 0;
      return OK;
    }
  } else if (isPageOfHeader) {
    addPending(state, data, bytes);
    return state->isCommit ? writePending(file) : OK;
  }
  int rc = writePending(file);
  if (rc == OK) rc = state->original->xWrite(file, data, bytes, offset);
  /* Where the next frame may follow. */
  state->end = rc == OK && bytes != FRAME_HEADER ? offset + bytes : -1;
  return rc;
}

static int syncLog(sqlite3_file *file, int flags) {
  int rc = writePending(file);
  return rc == OK ? stateOf(file)->original->xSync(file, flags) : rc;
}

static int truncateLog(sqlite3_file *file, int64_t bytes) {
  int rc = writePending(file);
  return rc == OK ? stateOf(file)->original->xTruncate(file, bytes) : rc;
}

static int sizeOfLog(sqlite3_file *file, int64_t *bytes) {
  int rc = writePending(file);
  return rc == OK ? stateOf(file)->original->xFileSize(file, bytes) : rc;
}

static int closeLog(sqlite3_file *file) {
  State *state = stateOf(file);
  stateOf(state->database)->log = NULL;
  free(state->pending);
  return state->original->xClose(file);
}

/* A transaction may overwrite its own frames, and writes their checksums at its end. */
static int readFrame(sqlite3_file *file, void *data, int bytes, int64_t offset) {
  State *state = stateOf(file);
  const State *database = stateOf(state->database);
  int rc = writePending(file);
  if (rc != OK) return rc;
  rc = state->original->xRead(file, data, bytes, offset);
  int isCommitted = database->checkpoints || (database->hasLocks && !database->isWriter);
  if (rc != OK || !database->verifies || !isCommitted || !isPage(bytes)) return rc;
  return isFrameIntact(file, data, bytes, offset) ? OK : CORRUPT;
}

static int lockShared(sqlite3_file *file, int offset, int count, int flags) {
  State *state = stateOf(file);
  int rc = state->original->xShmLock(file, offset, count, flags);
  if (rc != OK) return rc;
  state->hasLocks = 1;
  if (offset != SHM_WRITER || !(flags & SHM_EXCLUSIVE)) return OK;
  state->isWriter = (flags & SHM_LOCK) != 0;
  /* A rolled-back transaction drops its frames: another connection may use their place in the log from now on. */
  if (!state->isWriter && state->log != NULL) stateOf(state->log)->pendingBytes = 0;
  return OK;
}

static int control(sqlite3_file *file, int operation, void *argument) {
  State *state = stateOf(file);
  if (operation == FCNTL_TRUST_PAGES) {
    trustsPages = 1;
    return OK;
  }
  if (operation == FCNTL_CHECKPOINT_START) state->checkpoints = 1;
  if (operation == FCNTL_CHECKPOINT_DONE) state->checkpoints = 0;
  return state->original->xFileControl(file, operation, argument);
}

/* Without this SQLite would read parts of pages that hold long values, and parts have no checksum of their own. */
static int characteristics(sqlite3_file *file) {
  return stateOf(file)->original->xDeviceCharacteristics(file) & ~READS_PARTS_OF_PAGES;
}

static int openFile(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *outFlags) {
  (void)vfs;
  State *state = stateOf(file);
  memset(state, 0, sizeof *state);
  int rc = original->xOpen(original, name, file, flags, outFlags);
  if (rc != OK || file->methods == NULL || name == NULL) return rc;
  state->original = file->methods;
  state->methods = *file->methods;
  if (flags & OPEN_MAIN_DB) {
    state->methods.xRead = readPage;
    state->methods.xWrite = writePage;
    state->methods.xFileControl = control;
    state->methods.xDeviceCharacteristics = characteristics;
    state->methods.xShmLock = lockShared;
  } else if (flags & OPEN_WAL) {
    state->database = databaseOf(name);
    if (state->database->methods->xRead != readPage) return OK;
    stateOf(state->database)->log = file;
    state->end = -1;
    state->methods.xRead = readFrame;
    state->methods.xWrite = writeLog;
    state->methods.xSync = syncLog;
    state->methods.xTruncate = truncateLog;
    state->methods.xFileSize = sizeOfLog;
    state->methods.xClose = closeLog;
  } else return OK;
  file->methods = &state->methods;
  return OK;
}

/* Every file that this process opens from now on is read and written through this layer. */
__attribute__((visibility("default"))) int stoa_checksums_init(void *database, char **message, void **api) {
  (void)database, (void)message;
  sqlite3_vfs *(*find)(const char *) = (sqlite3_vfs * (*)(const char *)) api[API_VFS_FIND];
  int (*install)(sqlite3_vfs *, int) = (int (*)(sqlite3_vfs *, int))api[API_VFS_REGISTER];
  /* Another thread of the process registered the layer first, so this copy of the library is unloaded. */
  if (find("stoa") != NULL) return OK;
  databaseOf = (sqlite3_file * (*)(const char *)) api[API_DATABASE_FILE];
  original = find(NULL);
  layer = *original;
  layer.name = "stoa";
  layer.fileBytes = original->fileBytes + (int)sizeof(State);
  layer.xOpen = openFile;
  int rc = install(&layer, 1);
  return rc == OK ? LOADED_PERMANENTLY : rc;
}
