/** Viewers of one stream with three temporal layers: a slow one gets every second or fourth frame of it, in full order. */
import { describe, expect, test } from "bun:test";
import { ALL_TEMPORAL } from "../../../src/sfu/forwarding/forwarder.ts";
import { Allocation } from "../../../src/sfu/tracks/allocation.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { descriptor, descriptorWithStructure } from "../dependency-descriptors.ts";
import { type SentCopy, Stage, type StageViewer } from "./stage.ts";

/** The pattern of browsers: of four frames, one each of the lower layers and two of the highest. */
const PATTERN = [0, 2, 1, 2] as const;
const PACKETS = 2;
const FRAME_MS = 25;

/** How a publisher states the layer of a packet. */
type Way = "VP8 descriptor" | "dependency descriptor" | "VP9 descriptor";

class LayeredPublisher {
  number = 0;
  nowMs = 0;
  frame = -1;

  constructor(
    readonly stage: Stage,
    readonly way: Way,
  ) {}

  send(frames: number, { keyframe = false, lose = [] as readonly number[], bytes = 20 } = {}): void {
    for (let n = 0; n < frames; n++) this.#send(keyframe && n === 0, lose, bytes);
  }

  /** The pattern starts over with a keyframe. */
  #at = 0;
  #send(keyframe: boolean, lose: readonly number[], bytes: number): void {
    this.frame += 1;
    this.nowMs += FRAME_MS;
    this.#at = keyframe ? 0 : this.#at + 1;
    const layer = PATTERN[this.#at % PATTERN.length] ?? 0;
    for (let n = 0; n < PACKETS; n++) {
      this.number += 1;
      if (lose.includes(this.number)) continue;
      this.packet(this.number, { frame: this.frame, layer, keyframe, starts: n === 0, ends: n === PACKETS - 1, bytes });
    }
  }

  packet(
    number: number,
    of: { frame: number; layer: number; keyframe?: boolean; starts: boolean; ends: boolean; bytes?: number },
  ): void {
    const { frame, layer, keyframe = false, starts, ends, bytes = 20 } = of;
    const body = new Uint8Array(bytes);
    body.set([frame >> 8, frame & 0xff, layer]);
    const { head, described } = this.#head(frame, layer, keyframe, starts, ends);
    const payload = Uint8Array.from([...head, ...body]);
    this.stage.receive(number, frame * 2_250, payload, this.nowMs, this.stage.layer, {
      marker: ends,
      ...(described && { descriptor: described }),
    });
  }

  #head(frame: number, layer: number, keyframe: boolean, starts: boolean, ends: boolean) {
    const vp8 = starts ? [keyframe ? 0x10 : 0x11, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01] : [0];
    switch (this.way) {
      case "VP8 descriptor": {
        // Picture id of 15 bits, TL0PICIDX, and the layer with its sync bit, which the first frame of each higher layer has.
        const sync = layer > 0 && this.#at % 4 < 3 ? 0x20 : 0;
        const ids = [0x80 | (frame >> 8), frame & 0xff, Math.floor(frame / 4) & 0xff, (layer << 6) | sync];
        return { head: [0x80 | (starts ? 0x10 : 0), 0xe0, ...ids, ...vp8], described: null };
      }
      case "VP9 descriptor": {
        const first = 0x20 | (keyframe ? 0 : 0x40) | (starts ? 0x08 : 0) | (ends ? 0x04 : 0);
        return { head: [first, (layer << 5) | 0x10, frame & 0xff], described: null };
      }
      case "dependency descriptor": {
        const packet = { starts, ends, template: layer, frameNumber: frame };
        const indications = [2, 2, 2, 0, 1, 2, 0, 0, 1];
        const structure = { spatial: 1, temporal: 3, offset: 0, heights: [], indications };
        const described = keyframe && starts ? descriptorWithStructure(packet, structure) : descriptor(packet);
        return { head: [starts ? 0x10 : 0x00, ...vp8], described };
      }
    }
  }
}

const WAYS = ["VP8 descriptor", "dependency descriptor", "VP9 descriptor"] as const;
const codecOf = (way: Way) => (way === "VP9 descriptor" ? "VP9" : "VP8");

function start(way: Way, viewers: number) {
  const stage = new Stage(codecOf(way));
  const publisher = new LayeredPublisher(stage, way);
  publisher.send(1, { keyframe: true });
  const all = Array.from({ length: viewers }, () => stage.watch(0));
  publisher.send(8, { keyframe: true });
  const choose = ({ subscription }: StageViewer, temporal: number) =>
    subscription.setLayer(stage.layer, "requested", publisher.nowMs, { temporal });
  const forget = () => {
    for (const { seen } of all) seen.length = 0;
  };
  return { stage, publisher, all, choose, forget };
}

const bodyOf = ({ payload }: SentCopy) => payload.slice(-20);
const layersOf = ({ seen }: StageViewer) => new Set(seen.map((copy) => bodyOf(copy)[2]));
const framesOf = ({ seen }: StageViewer) => [
  ...new Set(seen.map((copy) => (bodyOf(copy)[0] ?? 0) * 256 + (bodyOf(copy)[1] ?? 0))),
];
const gaps = ({ seen }: StageViewer) =>
  seen.slice(1).filter((copy, n) => ((copy.sequenceNumber - (seen[n]?.sequenceNumber ?? 0)) & 0xffff) !== 1).length;
const pictureIds = ({ seen }: StageViewer) => [
  ...new Set(seen.map(({ payload }) => (((payload[2] ?? 0) & 0x7f) << 8) | (payload[3] ?? 0))),
];

describe.each(WAYS)("with the %s", (way) => {
  test("a viewer gets the temporal layers up to its highest one, with sequence numbers without gaps", () => {
    const { publisher, all, choose, forget } = start(way, 4);
    forget();
    const [whole, half, quarter, other] = all as [StageViewer, StageViewer, StageViewer, StageViewer];
    choose(half, 1);
    choose(quarter, 0);
    publisher.send(32);
    expect([whole, half, quarter, other].map((viewer) => framesOf(viewer).length)).toEqual([32, 16, 8, 32]);
    expect([...layersOf(half)].sort()).toEqual([0, 1]);
    expect([...layersOf(quarter)]).toEqual([0]);
    for (const viewer of all) expect(gaps(viewer)).toBe(0);
  });

  test("higher layers begin with a frame that allows it, and then all viewers share a fan-out group again", () => {
    const { stage, publisher, all, choose, forget } = start(way, 2);
    const [viewer] = all as [StageViewer];
    publisher.send(8);
    choose(viewer, 0);
    publisher.send(9);
    forget();
    expect(stage.layer.group.size).toBe(1);
    choose(viewer, ALL_TEMPORAL);
    publisher.send(16);
    const frames = framesOf(viewer);
    const first = frames.findIndex((frame, n) => n > 0 && frame - (frames[n - 1] ?? 0) === 1);
    // From there on there is every frame.
    expect(frames.slice(first - 1)).toEqual(frames.slice(first - 1).map((_, n) => (frames[first - 1] ?? 0) + n));
    expect(frames.length).toBeGreaterThan(10);
    expect(gaps(viewer)).toBe(0);
    expect(stage.layer.group.size).toBe(2);
  });

  test("all temporal layers can begin with a keyframe", () => {
    const { publisher, all, choose, forget } = start(way, 1);
    const [viewer] = all as [StageViewer];
    choose(viewer, 0);
    publisher.send(6);
    choose(viewer, ALL_TEMPORAL);
    forget();
    publisher.send(4, { keyframe: true });
    expect(framesOf(viewer)).toHaveLength(4);
  });

  test("a late frame is forwarded with its own number if its layer is forwarded, and uses up no number otherwise", () => {
    const { publisher, all, choose, forget } = start(way, 1);
    const [viewer] = all as [StageViewer];
    choose(viewer, 1);
    publisher.send(8);
    forget();
    // A whole frame of the lowest layer, and one packet of the highest.
    const from = publisher.number;
    const at = publisher.frame;
    publisher.send(12, { lose: [from + 7, from + 8, from + 3] });
    const missing = [...Array(12).keys()]
      .map((n) => at + 1 + n)
      .find((frame) => !framesOf(viewer).includes(frame) && frame - at === 4);
    expect(missing).toBe(at + 4);
    expect(gaps(viewer)).toBeGreaterThan(0);
    for (const n of [0, 1]) publisher.packet(from + 7 + n, { frame: at + 4, layer: 0, starts: n === 0, ends: n === 1 });
    viewer.seen.sort((one, other) => one.sequenceNumber - other.sequenceNumber);
    expect(framesOf(viewer).includes(at + 4)).toBe(true);
    expect(new Set(viewer.seen.map(({ sequenceNumber }) => sequenceNumber)).size).toBe(viewer.seen.length);
    const order = viewer.seen.map(({ timestamp }) => timestamp);
    expect(order).toEqual([...order].sort((one, other) => one - other));
  });
});

test("the picture ids of VP8 have no gaps either, and a late frame gets the id that was left for it", () => {
  const { publisher, all, choose, forget } = start("VP8 descriptor", 1);
  const [viewer] = all as [StageViewer];
  choose(viewer, 0);
  publisher.send(8);
  forget();
  const [from, at] = [publisher.number, publisher.frame];
  publisher.send(16, { lose: [from + 7, from + 8] });
  for (const n of [0, 1]) publisher.packet(from + 7 + n, { frame: at + 4, layer: 0, starts: n === 0, ends: n === 1 });
  viewer.seen.sort((one, other) => one.sequenceNumber - other.sequenceNumber);
  const ids = pictureIds(viewer);
  expect(ids).toEqual(ids.map((_, n) => (ids[0] ?? 0) + n));
  expect(ids.length).toBe(framesOf(viewer).length);
});

describe("a viewer", () => {
  const allocate = (stage: Stage, settings: object) => {
    const viewer = stage.watch(0);
    viewer.subscription.settings = { ...viewer.subscription.settings, ...settings };
    const host = { udp: {} as UdpPort, transportFeedback: new TransportFeedback(), now: () => 0 };
    const allocation = new Allocation(new SentPackets(), host);
    const run = (nowMs: number) => {
      allocation.run(new Map([["t", viewer.subscription]]), nowMs);
    };
    return { viewer, run };
  };

  test.each([
    [30, 32],
    [20, 16],
    [10, 8],
    [1, 8],
  ])("that wants %d frames a second of 40 gets %d of 32", (maxFps, expected) => {
    const stage = new Stage("VP8");
    const publisher = new LayeredPublisher(stage, "dependency descriptor");
    publisher.send(1, { keyframe: true });
    const { viewer, run } = allocate(stage, { maxFps: maxFps === 30 ? 45 : maxFps });
    publisher.send(80, { keyframe: true });
    run(publisher.nowMs);
    publisher.send(4);
    viewer.seen.length = 0;
    publisher.send(32);
    expect(framesOf(viewer).length).toBe(expected);
  });
});
