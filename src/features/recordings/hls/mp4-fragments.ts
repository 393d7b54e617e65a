// Parses the fragmented MP4 of an encoder while it is being written, one frame per fragment: the initialization segment,
// and each frame with its time.

export type Fragment = {
  /** The `moof` and `mdat` boxes. */
  bytes: Uint8Array;
  /** The time in ticks of the track's timescale. */
  time: number;
  keyframe: boolean;
};

type Handlers = {
  head(bytes: Uint8Array): void;
  fragment(fragment: Fragment): void;
};

const HEAD_BOXES = ["ftyp", "moov"];
/** No frame is larger than this. */
const MAX_BOX_BYTES = 64 * 1024 * 1024;
const IDR = 5;

export class Mp4Fragments {
  readonly #handlers: Handlers;
  #waiting: Uint8Array = new Uint8Array(0);
  #head: Uint8Array[] = [];
  #moof: Uint8Array | null = null;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  /** Throws unless the bytes are fragmented MP4. */
  add(bytes: Uint8Array): void {
    this.#waiting = Buffer.concat([this.#waiting, bytes]);
    for (;;) {
      if (this.#waiting.length < 8) return;
      const size = viewOf(this.#waiting).getUint32(0);
      if (size < 8 || size > MAX_BOX_BYTES) throw new Error("not a fragmented MP4");
      if (this.#waiting.length < size) return;
      const box = this.#waiting.slice(0, size);
      this.#waiting = this.#waiting.subarray(size);
      this.#addBox(typeOf(box), box);
    }
  }

  #addBox(type: string, box: Uint8Array): void {
    if (HEAD_BOXES.includes(type)) {
      this.#head.push(box);
      if (type === "moov") this.#handlers.head(Buffer.concat(this.#head));
    } else if (type === "moof") this.#moof = box;
    else if (type === "mdat" && this.#moof) {
      const bytes = Buffer.concat([this.#moof, box]);
      this.#handlers.fragment({ bytes, time: timeOf(bytes), keyframe: hasIdr(box) });
      this.#moof = null;
    }
  }
}

/** Changes the time of a fragment. */
export function moveFragment(bytes: Uint8Array, time: number): void {
  const at = findBox(bytes, "tfdt");
  const view = viewOf(bytes);
  if (bytes[at + 8] === 1) view.setBigUint64(at + 12, BigInt(time));
  else view.setUint32(at + 12, time);
}

/** The codec string of an H.264 track (RFC 6381), and its timescale. */
export function describeHead(head: Uint8Array): { codecs: string; timescale: number } {
  const avcc = findBox(head, "avcC");
  const profile = [...head.subarray(avcc + 9, avcc + 12)].map((value) => value.toString(16).padStart(2, "0")).join("");
  const mdhd = findBox(head, "mdhd");
  return { codecs: `avc1.${profile}`, timescale: viewOf(head).getUint32(mdhd + (head[mdhd + 8] === 1 ? 28 : 20)) };
}

function timeOf(bytes: Uint8Array): number {
  const at = findBox(bytes, "tfdt");
  const view = viewOf(bytes);
  return bytes[at + 8] === 1 ? Number(view.getBigUint64(at + 12)) : view.getUint32(at + 12);
}

/** The offset of a box. Encoders write each of these boxes once. */
function findBox(bytes: Uint8Array, type: string): number {
  const at = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(type, 0, "latin1");
  if (at < 4) throw new Error(`an MP4 without ${type}`);
  return at - 4;
}

/** Whether a frame is a keyframe: one of its NAL units belongs to an IDR. */
function hasIdr(mdat: Uint8Array): boolean {
  const view = viewOf(mdat);
  for (let at = 8; at + 5 <= mdat.length; at += 4 + view.getUint32(at)) {
    if (((mdat[at + 4] ?? 0) & 0x1f) === IDR) return true;
  }
  return false;
}

function typeOf(box: Uint8Array): string {
  return Buffer.from(box.buffer, box.byteOffset + 4, 4).toString("latin1");
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
