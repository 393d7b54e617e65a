/** Encrypts and decrypts the tracks and data of a participant without a browser. */
import { DataCipher } from "../../protocol/encryption/data-cipher.ts";
import { frameCodecOf } from "../../protocol/encryption/frame-format.ts";
import { KeyAgreement } from "../../protocol/encryption/key-agreement.ts";
import { type EncryptionOptions, type KeyProvider, keyProviderOf } from "../../protocol/encryption/key-provider.ts";
import { KeyStore } from "../../protocol/encryption/key-store.ts";
import { MAX_FAILED_FRAMES, RoomKeys } from "../../protocol/encryption/room-keys.ts";
import { annexB, nalUnits, unitsByLength, withLengths } from "./nal-units.ts";

/** Encrypts an outgoing frame; returns null if there is no key yet. */
export type EncryptFrame = (bytes: Uint8Array, isKeyframe: boolean) => Promise<Uint8Array | null>;

export const PLAIN: EncryptFrame = async (bytes) => bytes;

export class TrackCipher {
  readonly keys: RoomKeys;
  readonly #store = new KeyStore();
  readonly data = new DataCipher(this.#store);

  private constructor(
    provider: KeyProvider,
    readonly agreement: KeyAgreement | null,
  ) {
    this.keys = new RoomKeys(provider, (command) => void this.#store.apply(command));
  }

  static async create(options: EncryptionOptions): Promise<TrackCipher> {
    if (!("agree" in options)) return new TrackCipher(keyProviderOf(options), null);
    const agreement = await KeyAgreement.create();
    return new TrackCipher(agreement.provider, agreement);
  }

  close(): void {
    this.agreement?.close();
    this.keys.close();
  }

  encryptor(codec: string): EncryptFrame {
    const known = frameCodecOf(`any/${codec}`);
    return async (bytes, isKeyframe) =>
      known && this.#store.encrypt({ codec: known, bytes: bytes.slice(), isKeyframe });
  }

  /** Decrypts the frames of one received track in order. */
  decryptor(identity: string, codec: string, requestKeyframe: () => void) {
    const known = frameCodecOf(`any/${codec}`);
    let failures = 0;
    let done: Promise<void> = Promise.resolve();
    const open = async (bytes: Uint8Array, isKeyframe: boolean, deliver: (plain: Uint8Array) => void) => {
      const encrypted = known === "H264" ? annexB(unitsByLength(bytes)) : bytes.slice();
      const frame = known && { codec: known, bytes: encrypted as Uint8Array<ArrayBuffer>, isKeyframe };
      const plain = frame && (await this.#store.decrypt(identity, frame));
      if (!plain || typeof plain === "string") {
        if (++failures === MAX_FAILED_FRAMES) this.keys.failed(identity);
        return;
      }
      // A decoder that lacks the dropped frames cannot continue before the next keyframe.
      if (failures > 0 && !isKeyframe) requestKeyframe();
      failures = 0;
      deliver(known === "H264" ? withLengths(nalUnits(plain)) : plain);
    };
    return (...frame: Parameters<typeof open>): void => {
      done = done.then(() => open(...frame));
    };
  }
}
