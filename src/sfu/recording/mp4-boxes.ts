// The boxes of ISO base media files (ISO/IEC 14496-12) that a fragmented file of one track needs.

import { concat } from "../wire/frames/frame.ts";
import { opusHead } from "../wire/frames/opus-frames.ts";
import type { TrackFormat } from "./media-file.ts";

export function box(type: string, ...parts: Uint8Array[]): Uint8Array {
  const content = concat(parts);
  const out = new Uint8Array(8 + content.length);
  new DataView(out.buffer).setUint32(0, out.length);
  for (let i = 0; i < 4; i++) out[4 + i] = type.charCodeAt(i);
  out.set(content, 8);
  return out;
}

export function fullBox(type: string, version: number, flags: number, ...parts: Uint8Array[]): Uint8Array {
  return box(type, u32(version * 2 ** 24 + flags), ...parts);
}

function u8(...values: number[]): Uint8Array {
  return Uint8Array.from(values);
}

function u16(value: number): Uint8Array {
  return Uint8Array.of(value >>> 8, value);
}

export function u32(...values: number[]): Uint8Array {
  const out = new Uint8Array(values.length * 4);
  const view = new DataView(out.buffer);
  values.forEach((value, i) => {
    view.setUint32(i * 4, value);
  });
  return out;
}

export function u64(value: number): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(value));
  return out;
}

const MATRIX = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000);

/** avc3 has parameter sets in the frames, so that they may change. Apple's players know only avc1, and accept them there too. */
type H264Entry = "avc1" | "avc3";

/** `ftyp` and `moov`, which a player needs before the first fragment. */
export function initialization(format: TrackFormat, timescale: number, h264: H264Entry = "avc3"): Uint8Array {
  const isVideo = format.codec !== "opus";
  const [width, height] = isVideo ? [format.width, format.height] : [0, 0];
  const mvhd = fullBox(
    "mvhd",
    0,
    0,
    u32(0, 0, 1_000, 0, 0x10000),
    u16(0x100),
    new Uint8Array(10),
    MATRIX,
    new Uint8Array(24),
    u32(2),
  );
  const tkhd = fullBox(
    "tkhd",
    0,
    3,
    u32(0, 0, 1, 0, 0, 0, 0),
    u16(0),
    u16(0),
    u16(isVideo ? 0 : 0x100),
    u16(0),
    MATRIX,
    u32(width * 0x10000, height * 0x10000),
  );
  const mdhd = fullBox("mdhd", 0, 0, u32(0, 0, timescale, 0), u16(0x55c4), u16(0));
  const handler = isVideo ? "vide" : "soun";
  const hdlr = fullBox("hdlr", 0, 0, u32(0), ascii(handler), new Uint8Array(12), u8(0));
  const header = isVideo ? fullBox("vmhd", 0, 1, new Uint8Array(8)) : fullBox("smhd", 0, 0, new Uint8Array(4));
  const dinf = box("dinf", fullBox("dref", 0, 0, u32(1), fullBox("url ", 0, 1)));
  const stbl = box(
    "stbl",
    fullBox("stsd", 0, 0, u32(1), sampleEntry(format, h264)),
    fullBox("stts", 0, 0, u32(0)),
    fullBox("stsc", 0, 0, u32(0)),
    fullBox("stsz", 0, 0, u32(0, 0)),
    fullBox("stco", 0, 0, u32(0)),
  );
  const trak = box("trak", tkhd, box("mdia", mdhd, hdlr, box("minf", header, dinf, stbl)));
  const trex = fullBox("trex", 0, 0, u32(1, 1, 0, 0, 0));
  const mvex = box("mvex", fullBox("mehd", 0, 0, u32(0)), trex);
  return concat([
    box("ftyp", ascii("iso6"), u32(1), ascii("iso6"), ascii("cmfc"), ascii("mp41")),
    box("moov", mvhd, trak, mvex),
  ]);
}

function ascii(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function sampleEntry(format: TrackFormat, h264: H264Entry): Uint8Array {
  const start = concat([new Uint8Array(6), u16(1)]);
  if (format.codec === "opus") {
    const audio = concat([new Uint8Array(8), u16(format.channels), u16(16), u32(0), u32(48_000 * 0x10000)]);
    return box("Opus", start, audio, box("dOps", dOps(format.channels)));
  }
  const video = concat([
    start,
    new Uint8Array(16),
    u16(format.width),
    u16(format.height),
    u32(0x480000, 0x480000, 0),
    u16(1),
    new Uint8Array(32),
    u16(24),
    u16(0xffff),
  ]);
  switch (format.codec) {
    case "h264":
      return box(h264, video, box("avcC", avcC(format.sps, format.pps)));
    case "av1":
      return box("av01", video, box("av1C", format.configuration ?? u8(0x81, 0, 0, 0)));
    case "vp8":
    case "vp9":
      return box(
        format.codec === "vp8" ? "vp08" : "vp09",
        video,
        fullBox("vpcC", 1, 0, u8(0, 10, 0x82, 2, 2, 2, 0, 0)),
      );
  }
}

/** ISO/IEC 14496-15 §5.3.3.1. */
function avcC(sps: Uint8Array, pps: Uint8Array): Uint8Array {
  return concat([
    u8(1, sps[1] ?? 0, sps[2] ?? 0, sps[3] ?? 0, 0xff, 0xe1),
    u16(sps.length),
    sps,
    u8(1),
    u16(pps.length),
    pps,
  ]);
}

/** The identification header of Opus in the byte order of this container. */
function dOps(channels: number): Uint8Array {
  const head = opusHead(channels);
  return concat([u8(0, channels), u16(new DataView(head.buffer).getUint16(10, true)), u32(48_000), u16(0), u8(0)]);
}
