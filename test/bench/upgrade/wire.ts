/**
 * Times at which video passes the loopback interface, as the kernel notes them: no event loop delays them, neither that of who
 * sends nor that of who receives. It reads a packet socket, which needs root, and runs as a process of its own.
 */
import { dlopen, FFIType, ptr, toArrayBuffer } from "bun:ffi";
import { $ } from "bun";
import { serveHelper } from "./helper.ts";

const { i32, ptr: pointer, u32, u64 } = FFIType;
const libc = dlopen("libc.so.6", {
  socket: { args: [i32, i32, i32], returns: i32 },
  setsockopt: { args: [i32, i32, i32, pointer, u32], returns: i32 },
  getsockopt: { args: [i32, i32, i32, pointer, pointer], returns: i32 },
  if_nametoindex: { args: [pointer], returns: u32 },
  bind: { args: [i32, pointer, u32], returns: i32 },
  mmap: { args: [u64, u64, i32, i32, i32, u64], returns: pointer },
}).symbols;

const AF_PACKET = 17;
const SOCK_DGRAM = 2;
/** ETH_P_IP in network byte order. */
const IPV4 = 0x0008;
const SOL_PACKET = 263;
const OPTION = { ring: 5, statistics: 6, version: 10, ignoreOutgoing: 23 };
const TPACKET_V2 = 1;
const READ_WRITE = 3;
const MAP_SHARED = 1;

/** Room for 65,536 packets, of each as many bytes as hold the headers. */
const BLOCK = { bytes: 65_536, count: 128 };
const FRAME_BYTES = 128;
const FRAMES = (BLOCK.bytes / FRAME_BYTES) * BLOCK.count;
/** Positions in `struct tpacket2_hdr`. */
const AT = { status: 0, network: 14, seconds: 16, nanoseconds: 20 };
const READ_EVERY_MS = 50;

const UDP = 17;
const UDP_HEADER_BYTES = 8;
const VP8 = 96;
/** Shorter gaps are no more than the time between two frames, and its jitter. */
const KEPT_ABOVE_MS = 45;

/** A gap in a stream, in milliseconds since 1970. */
export type Gap = { from: number; to: number };
/** Video to or from a port of a client. */
export type Stream = { port: number; ssrc: number; isSent: boolean; packets: number; longestMs: number; gaps: Gap[] };
type Watched = Stream & { lastAt: number };

const streams = new Map<number, Watched>();
let ring: DataView | null = null;
let frame = 0;
let serverPort = 0;
let fd = -1;

async function open(port: number): Promise<void> {
  serverPort = port;
  // The server sends packets for one client as one (UDP GSO), of which only the first would be seen here, and as one of its stream.
  await $`ip link set dev lo gso_max_segs 1`;
  fd = libc.socket(AF_PACKET, SOCK_DGRAM, IPV4);
  if (fd < 0) throw new Error("a packet socket needs root");
  const option = (name: number, ...words: number[]) => {
    if (libc.setsockopt(fd, SOL_PACKET, name, ptr(Uint32Array.from(words)), words.length * 4) !== 0)
      throw new Error(`the packet socket refuses option ${name}`);
  };
  option(OPTION.version, TPACKET_V2);
  // Otherwise each packet comes twice.
  option(OPTION.ignoreOutgoing, 1);
  option(OPTION.ring, BLOCK.bytes, BLOCK.count, FRAME_BYTES, FRAMES);
  const bytes = BLOCK.bytes * BLOCK.count;
  const mapped = libc.mmap(0, bytes, READ_WRITE, MAP_SHARED, fd, 0);
  if (mapped === null) throw new Error("the ring cannot be mapped");
  ring = new DataView(toArrayBuffer(mapped, 0, bytes));
  // `struct sockaddr_ll`
  const address = new DataView(new ArrayBuffer(20));
  address.setUint16(0, AF_PACKET, true);
  address.setUint16(2, IPV4, true);
  address.setUint32(4, libc.if_nametoindex(ptr(Buffer.from("lo\0"))), true);
  if (libc.bind(fd, ptr(address), address.byteLength) !== 0) throw new Error("the packet socket cannot be bound");
  setInterval(read, READ_EVERY_MS);
}

function read(): void {
  if (!ring) return;
  for (; ring.getUint32(frame * FRAME_BYTES, true) !== 0; frame = (frame + 1) % FRAMES) {
    const start = frame * FRAME_BYTES;
    readFrame(ring, start);
    ring.setUint32(start + AT.status, 0, true);
  }
}

function readFrame(view: DataView, start: number): void {
  const ip = start + view.getUint16(start + AT.network, true);
  if (view.getUint8(ip + 9) !== UDP) return;
  const udp = ip + (view.getUint8(ip) & 0xf) * 4;
  const [from, to] = [view.getUint16(udp), view.getUint16(udp + 2)];
  const rtp = udp + UDP_HEADER_BYTES;
  const isSent = to === serverPort;
  if ((!isSent && from !== serverPort) || view.getUint16(udp + 4) < UDP_HEADER_BYTES + 12) return;
  if (view.getUint8(rtp) >> 6 !== 2 || (view.getUint8(rtp + 1) & 0x7f) !== VP8) return;
  const at = view.getUint32(start + AT.seconds, true) * 1_000 + view.getUint32(start + AT.nanoseconds, true) / 1e6;
  const port = isSent ? from : to;
  const ssrc = view.getUint32(rtp + 8);
  const key = (port * 2 + Number(isSent)) * 2 ** 32 + ssrc;
  const stream = streams.get(key);
  if (!stream) {
    streams.set(key, { port, ssrc, isSent, packets: 1, longestMs: 0, gaps: [], lastAt: at });
    return;
  }
  stream.packets++;
  lasted(stream, at);
  stream.lastAt = at;
}

function lasted(stream: Watched, until: number): void {
  const ms = until - stream.lastAt;
  if (ms > stream.longestMs) stream.longestMs = ms;
  if (ms > KEPT_ABOVE_MS) stream.gaps.push({ from: stream.lastAt, to: until });
}

const functions = {
  open,

  /** What has passed since the last call, or since `forget`. A stream that has ended counts as one long gap. */
  take(): Stream[] {
    read();
    const now = Date.now();
    const taken = [...streams.values()].map((stream) => {
      lasted(stream, now);
      const { port, ssrc, isSent, packets, longestMs, gaps } = stream;
      return { port, ssrc, isSent, packets, longestMs, gaps };
    });
    for (const stream of streams.values()) {
      // A gap that is not over is counted from its begin.
      stream.longestMs = 0;
      stream.gaps = [];
      stream.packets = 0;
    }
    return taken;
  },

  forget(): void {
    read();
    streams.clear();
  },

  /** Packets that passed while the ring was full. */
  missed(): number {
    const counts = new Uint32Array(2);
    libc.getsockopt(fd, SOL_PACKET, OPTION.statistics, ptr(counts), ptr(Uint32Array.of(8)));
    return counts[1] ?? 0;
  },
};

export type Wire = typeof functions;

serveHelper(functions);
