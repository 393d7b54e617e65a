import { timingSafeEqual } from "node:crypto";
import { type CommitRecord, decodeRecord, encodeRecord, type Member } from "./commit-log.ts";

/** The first byte of an authenticated record; older versions wrote records that start with their kind. */
const SEALED = 3;
const MAC_BYTES = 32;
const HEADER_BYTES = 1 + 2 * MAC_BYTES;
/** A placeholder for the MAC of the record before the first known one. */
const NONE = Buffer.alloc(MAC_BYTES);

export type RefusedPart = "leader" | "member" | "record";

/** The log contains data that no server with this STOA_SECRET wrote. */
export class LogForged extends Error {
  override readonly name = "LogForged";
  constructor(what: string) {
    super(`${what} is not authentic: another program writes to the commit log's Postgres`);
  }
}

type SealOptions = {
  key: Uint8Array;
  /**
   * Whether records and rows without a seal are rejected. A log of an older version has some until the next leader
   * starts.
   */
  isRequired: boolean;
  onRefused?: (part: RefusedPart) => void;
};

type OpenedRecord = { record: CommitRecord; mac: Uint8Array | null };

/**
 * Authenticates the content of the commit log, with a key that its Postgres never sees. The seal of a record covers its
 * position and the seal of the record before it, so that records cannot be changed, exchanged or moved.
 */
export class LogSeal {
  readonly #key: Uint8Array;
  readonly #onRefused: (part: RefusedPart) => void;
  #isRequired: boolean;

  constructor({ key, isRequired, onRefused = () => {} }: SealOptions) {
    this.#key = key;
    this.#isRequired = isRequired;
    this.#onRefused = onRefused;
  }

  /** From now on records and rows without a seal are rejected. */
  require(): void {
    this.#isRequired = true;
  }

  sealRow(part: Exclude<RefusedPart, "record">, ...values: (string | number | null)[]): string {
    return this.#mac(part, values.map(String)).toString("hex");
  }

  /** Whether a row may be used. A row without a seal is accepted while seals are not required. */
  accepts(part: Exclude<RefusedPart, "record">, seal: string | null, ...values: (string | number | null)[]): boolean {
    if (seal === null && !this.#isRequired) return true;
    if (seal !== null && equal(Buffer.from(seal, "hex"), this.#mac(part, values.map(String)))) return true;
    this.#onRefused(part);
    return false;
  }

  close(
    logId: string,
    position: number,
    before: Uint8Array | null,
    record: CommitRecord,
  ): { bytes: Uint8Array; mac: Uint8Array } {
    const encoded = encodeRecord(record);
    const previous = before ?? NONE;
    const mac = this.#recordMac(logId, position, previous, encoded);
    this.require();
    return { bytes: Buffer.concat([Buffer.of(SEALED), mac, previous, encoded]), mac };
  }

  open(logId: string, position: number, before: Uint8Array | null, bytes: Uint8Array): OpenedRecord {
    if (bytes[0] !== SEALED) {
      if (!this.#isRequired) return { record: decodeRecord(bytes), mac: null };
      throw this.#refused(`record ${position}`);
    }
    const mac = bytes.subarray(1, 1 + MAC_BYTES);
    const previous = bytes.subarray(1 + MAC_BYTES, HEADER_BYTES);
    const encoded = bytes.subarray(HEADER_BYTES);
    const isAuthentic = bytes.length > HEADER_BYTES && equal(mac, this.#recordMac(logId, position, previous, encoded));
    if (!isAuthentic) throw this.#refused(`record ${position}`);
    // A leader that could not read the record before its first one has no previous seal.
    const follows = before === null || equal(previous, NONE) || equal(previous, before);
    if (!follows) throw this.#refused(`record ${position - 1}, which another one replaced,`);
    this.require();
    return { record: decodeRecord(encoded), mac };
  }

  #refused(what: string): LogForged {
    this.#onRefused("record");
    return new LogForged(what);
  }

  #recordMac(logId: string, position: number, previous: Uint8Array, encoded: Uint8Array): Buffer {
    return this.#mac("record", [logId, String(position), previous, encoded]);
  }

  #mac(label: string, parts: readonly (string | Uint8Array)[]): Buffer {
    const hash = new Bun.CryptoHasher("sha256", this.#key);
    // Each part is prefixed by its length, so that parts cannot be shifted into each other.
    for (const part of [label, ...parts]) hash.update(`${Buffer.byteLength(part)}:`).update(part);
    return hash.digest();
  }
}

export type MemberRow = Pick<Member, "url" | "role" | "version"> & { position: string | number; seal: string | null };

export function acceptsMember(seal: LogSeal | undefined, logId: string, row: MemberRow): boolean {
  return seal?.accepts("member", row.seal, logId, row.url, row.role, row.position, row.version) ?? true;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
