/** Encoded files to RTP payloads, as browsers cut them: what the recorder must be able to put together again. */
const MTU = 1_100;

export type SentFrame = { timestamp: number; payloads: Uint8Array[] };

function concat(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts));
}

function chunks(data: Uint8Array): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (let at = 0; at < data.length; at += MTU) out.push(data.subarray(at, at + MTU));
  return out;
}

/** The frames of an IVF file with their times in 90 kHz. */
function ivfFrames(file: Uint8Array, rate: number): { timestamp: number; data: Uint8Array }[] {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const frames: { timestamp: number; data: Uint8Array }[] = [];
  for (let at = 32; at + 12 <= file.length; ) {
    const size = view.getUint32(at, true);
    frames.push({ timestamp: (frames.length * 90_000) / rate, data: file.subarray(at + 12, at + 12 + size) });
    at += 12 + size;
  }
  return frames;
}

export function vp8(file: Uint8Array): SentFrame[] {
  return ivfFrames(file, 25).map(({ timestamp, data }, picture) => ({
    timestamp,
    payloads: chunks(data).map((part, i) =>
      concat(Uint8Array.of(0x80 | (i === 0 ? 0x10 : 0), 0x80, 0x80 | (picture >> 8), picture & 0xff), part),
    ),
  }));
}

export function vp9(file: Uint8Array): SentFrame[] {
  return ivfFrames(file, 25).map(({ timestamp, data }, picture) => {
    const parts = chunks(data);
    return {
      timestamp,
      payloads: parts.map((part, i) => {
        const starts = i === 0 ? 0x08 : 0;
        const ends = i === parts.length - 1 ? 0x04 : 0;
        const predicted = picture % 25 === 0 ? 0 : 0x40;
        const structure = picture % 25 === 0 && i === 0 ? 0x02 : 0;
        const head = [0x80 | predicted | starts | ends | structure, 0x80 | (picture >> 8), picture & 0xff];
        if (structure) head.push(0x10, 320 >> 8, 320 & 0xff, 0, 240);
        return concat(Uint8Array.from(head), part);
      }),
    };
  });
}

/** One fragmented or whole OBU a packet; sizes are taken out, as RTP wants it. */
export function av1(file: Uint8Array): SentFrame[] {
  return ivfFrames(file, 25).map(({ timestamp, data }) => {
    const payloads: Uint8Array[] = [];
    for (const obu of obusOf(data)) {
      const parts = chunks(obu);
      parts.forEach((part, i) => {
        const continues = i > 0 ? 0x80 : 0;
        const goesOn = i < parts.length - 1 ? 0x40 : 0;
        payloads.push(concat(Uint8Array.of(continues | goesOn | 0x10), part));
      });
    }
    return { timestamp, payloads };
  });
}

function obusOf(data: Uint8Array): Uint8Array[] {
  const obus: Uint8Array[] = [];
  for (let at = 0; at < data.length; ) {
    const header = data[at] as number;
    let size = 0;
    let next = at + 1 + (header & 4 ? 1 : 0);
    for (let shift = 0; ; shift += 7) {
      const byte = data[next++] as number;
      size += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    const type = (header >> 3) & 15;
    if (type !== 2) obus.push(concat(Uint8Array.of(header & ~2), data.subarray(next, next + size)));
    at = next + size;
  }
  return obus;
}

/** Parameter sets in a STAP-A, large slices in pieces: as libwebrtc does. */
export function h264(file: Uint8Array): SentFrame[] {
  const frames: SentFrame[] = [];
  let sets: Uint8Array[] = [];
  for (const unit of annexB(file)) {
    const type = (unit[0] as number) & 0x1f;
    if (type === 9 || type === 6) continue;
    if (type === 7 || type === 8) {
      sets.push(unit);
      continue;
    }
    const payloads: Uint8Array[] = [];
    if (sets.length > 0) {
      payloads.push(
        concat(Uint8Array.of(24), ...sets.flatMap((set) => [Uint8Array.of(set.length >> 8, set.length), set])),
      );
      sets = [];
    }
    const parts = chunks(unit.subarray(1));
    if (parts.length === 1) payloads.push(unit);
    else {
      parts.forEach((part, i) => {
        const bits = (i === 0 ? 0x80 : 0) | (i === parts.length - 1 ? 0x40 : 0);
        payloads.push(concat(Uint8Array.of(((unit[0] as number) & 0xe0) | 28, bits | type), part));
      });
    }
    frames.push({ timestamp: frames.length * 3_600, payloads });
  }
  return frames;
}

function annexB(file: Uint8Array): Uint8Array[] {
  const starts: number[] = [];
  for (let at = 0; at + 3 < file.length; at++)
    if (file[at] === 0 && file[at + 1] === 0 && file[at + 2] === 1) starts.push(at + 3);
  return starts.map((start, i) => {
    let end = i + 1 < starts.length ? (starts[i + 1] as number) - 3 : file.length;
    while (end > start && file[end - 1] === 0) end--;
    return file.subarray(start, end);
  });
}

/** The packets of an Ogg file, without its two headers. */
export function opus(file: Uint8Array): SentFrame[] {
  const packets: Uint8Array[] = [];
  let open: Uint8Array[] = [];
  for (let at = 0; at + 27 <= file.length; ) {
    const segments = file[at + 26] as number;
    let data = at + 27 + segments;
    for (let i = 0; i < segments; i++) {
      const size = file[at + 27 + i] as number;
      open.push(file.subarray(data, data + size));
      data += size;
      if (size < 255) {
        packets.push(concat(...open));
        open = [];
      }
    }
    at = data;
  }
  return packets.slice(2).map((payload, i) => ({ timestamp: i * 960, payloads: [payload] }));
}
