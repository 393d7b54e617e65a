/** Viewers of one stream with three spatial layers: each gets the lowest of them, as many as it is to get. */
import { expect, test } from "bun:test";
import { Allocation } from "../../../src/sfu/tracks/allocation.ts";
import type { SelectableLayer } from "../../../src/sfu/tracks/spatial-layers.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { descriptor, descriptorWithStructure } from "../dependency-descriptors.ts";
import { Stage, type StageViewer } from "./stage.ts";

const LAYERS = 3;
const HEIGHTS = [180, 360, 720];
/** Each spatial layer has as many packets. */
const PACKETS = [1, 2, 3];

/** A frame of each spatial layer, with one RTP timestamp. */
class SvcPublisher {
  #number = 100;
  #frame = 0;
  #picture = 0;
  nowMs = 0;

  constructor(
    readonly stage: Stage,
    readonly codec: "VP9" | "AV1",
    /** The size of the packets of each spatial layer. */
    readonly packetBytes: readonly number[] = [],
  ) {}

  picture(keyframe = false, layers = LAYERS): void {
    this.#picture += 1;
    this.nowMs += 33;
    for (let spatial = 0; spatial < layers; spatial++) {
      this.#frame += 1;
      const count = PACKETS[spatial] ?? 1;
      for (let n = 0; n < count; n++) {
        const [starts, ends] = [n === 0, n === count - 1];
        const isLast = ends && spatial === layers - 1;
        const { payload: content, more } = this.#packet(spatial, { starts, ends, keyframe });
        const payload = new Uint8Array(Math.max(content.length, this.packetBytes[spatial] ?? 0));
        payload.set(content);
        payload[payload.length - 1] = spatial;
        this.#number += 1;
        this.stage.receive(this.#number, this.#picture * 3_000, payload, this.nowMs, this.stage.layer, {
          marker: isLast,
          ...more,
        });
      }
    }
  }

  lose(): void {
    this.#number += 1;
  }

  #packet(spatial: number, { starts, ends, keyframe }: { starts: boolean; ends: boolean; keyframe: boolean }) {
    if (this.codec === "VP9") {
      const hasStructure = keyframe && starts && spatial === 0;
      const first = 0x20 | (keyframe ? 0 : 0x40) | (starts ? 0x08 : 0) | (ends ? 0x04 : 0) | (hasStructure ? 0x02 : 0);
      const sizes = HEIGHTS.flatMap((height) => [0, 1, height >> 8, height & 0xff]);
      const structure = hasStructure ? [((LAYERS - 1) << 5) | 0x10, ...sizes] : [];
      return { payload: Uint8Array.of(first, spatial << 1, 7, ...structure, spatial), more: {} };
    }
    const described = { starts, ends, template: spatial, frameNumber: this.#frame };
    const hasStructure = keyframe && starts && spatial === 0;
    const structure = { spatial: LAYERS, temporal: 1, offset: 0, heights: HEIGHTS };
    const bytes = hasStructure ? descriptorWithStructure(described, structure) : descriptor(described);
    // The aggregation header of a packet that begins a coded video sequence, and an OBU of a sequence header.
    const payload = hasStructure ? Uint8Array.of(0x18, 0x08, spatial) : Uint8Array.of(0x10, 0x30, spatial);
    return { payload, more: { descriptor: bytes } };
  }
}

function start(codec: "VP9" | "AV1", viewers: number) {
  const stage = new Stage(codec);
  const publisher = new SvcPublisher(stage, codec);
  publisher.picture();
  const all = Array.from({ length: viewers }, () => stage.watch(0));
  publisher.picture(true);
  const choose = (viewer: StageViewer, index: number) =>
    viewer.subscription.setLayer(stage.publication.choices[index] as SelectableLayer, "requested", publisher.nowMs);
  return { stage, publisher, viewers: all, choose };
}

/** The spatial layers of the packets since the last call, the layers that end a frame, and whether numbers have gaps. */
function seenBy({ seen }: StageViewer) {
  const copies = seen.splice(0);
  return {
    layers: copies.map(({ payload }) => payload.at(-1)),
    pictures: copies.filter(({ marker }) => marker).map(({ payload }) => payload.at(-1)),
    numbers: copies.map(({ sequenceNumber }) => sequenceNumber),
  };
}

for (const codec of ["VP9", "AV1"] as const) {
  test(`${codec}: each viewer gets its layers of one stream without gaps, and every frame has an end marker`, () => {
    const { stage, publisher, viewers, choose } = start(codec, 3);
    expect(stage.publication.choices.map(({ height }) => height)).toEqual(HEIGHTS);
    for (const viewer of viewers) seenBy(viewer);
    for (const [index, viewer] of viewers.entries()) choose(viewer, index);
    for (let n = 0; n < 20; n++) publisher.picture(n === 10);
    const expected = [[0], [0, 1, 1], [0, 1, 1, 2, 2, 2]];
    for (const [index, viewer] of viewers.entries()) {
      const { layers, pictures, numbers } = seenBy(viewer);
      expect(layers).toEqual(Array.from({ length: 20 }, () => expected[index] ?? []).flat());
      expect(pictures).toEqual(new Array<number>(20).fill(index));
      expect(numbers).toEqual(numbers.map((_, n) => (numbers[0] ?? 0) + n));
      expect(viewer.subscription.currentLayer).toBe((["low", "medium", "high"] as const)[index] ?? null);
    }
    // Viewers of all layers share a group.
    expect(stage.layer.group.size).toBe(1);
  });

  test(`${codec}: layers are dropped with the next frame, and added with a keyframe, which is requested`, () => {
    const { stage, publisher, viewers, choose } = start(codec, 1);
    const [viewer] = viewers as [StageViewer];
    publisher.picture();
    seenBy(viewer);
    choose(viewer, 0);
    publisher.picture();
    expect(seenBy(viewer)).toMatchObject({ layers: [0], pictures: [0] });
    stage.layer.takeKeyframeRequest(publisher.nowMs);
    expect(stage.layer.keyframeDue).toBe(false);
    choose(viewer, 2);
    expect(stage.layer.keyframeDue).toBe(true);
    publisher.picture();
    expect(seenBy(viewer).layers).toEqual([0]);
    expect(viewer.subscription.currentLayer).toBe("low");
    publisher.picture(true);
    publisher.picture();
    expect(seenBy(viewer)).toMatchObject({ layers: [0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2], pictures: [2, 2] });
    expect(viewer.subscription.currentLayer).toBe("high");
  });
}

test("the bitrate of a spatial layer includes the layers below it, and a layer that stops is not live", () => {
  const { stage, publisher, viewers, choose } = start("VP9", 2);
  for (const viewer of viewers) choose(viewer, 0);
  for (let n = 0; n < 300; n++) publisher.picture();
  const rates = stage.publication.choices.map(({ rate }) => rate.bitsPerSecond(publisher.nowMs));
  const [low = 0, medium = 0, high = 0] = rates;
  expect(medium / low).toBeCloseTo(3, 0);
  expect(high / low).toBeCloseTo(6, 0);
  expect(stage.publication.liveMask(publisher.nowMs)).toBe(0b111);
  for (let n = 0; n < 60; n++) publisher.picture(false, 2);
  expect(stage.publication.liveMask(publisher.nowMs)).toBe(0b011);
});

test("a lost packet of a layer that the viewer does not receive leaves no gap after its retransmission", () => {
  const { publisher, viewers, choose } = start("VP9", 1);
  const [viewer] = viewers as [StageViewer];
  choose(viewer, 1);
  publisher.picture();
  seenBy(viewer);
  publisher.lose();
  publisher.picture();
  const { numbers, layers } = seenBy(viewer);
  expect(layers).toEqual([0, 1, 1]);
  expect(numbers.map((number) => number - (numbers[0] ?? 0))).toEqual([0, 1, 2]);
});

test("a stream with one spatial layer is forwarded like a stream without layers", () => {
  const stage = new Stage("AV1");
  const structure = { spatial: 1, temporal: 3, offset: 0, heights: [720] };
  const described = { starts: true, ends: true, template: 0, frameNumber: 1 };
  const receive = (number: number, bytes: Uint8Array, payload = Uint8Array.of(0x10, 0x30, 0)) =>
    stage.receive(number, number * 3_000, payload, number, stage.layer, { marker: true, descriptor: bytes });
  receive(1, descriptor(described));
  const viewer = stage.watch(1);
  receive(2, descriptorWithStructure(described, structure), Uint8Array.of(0x18, 0x08, 0));
  for (let number = 3; number < 20; number++) receive(number, descriptor({ ...described, template: number % 3 }));
  expect(stage.publication.choices).toBe(stage.publication.layers);
  expect(viewer.seen.length).toBe(18);
  expect(viewer.subscription.currentLayer).toBe("high");
  expect(stage.layer.group.size).toBe(1);
});

/** The bitrates that viewers get after the first twenty seconds, in kbit/s, of a stream of 96, 317 and 844 kbit/s. */
function watched(codec: "VP9" | "AV1", kbits: readonly number[], readsDependencies = true) {
  const stage = new Stage(codec);
  const publisher = new SvcPublisher(stage, codec, [390, 450, 720]);
  publisher.picture();
  const host = { udp: {} as UdpPort, transportFeedback: new TransportFeedback(), now: () => publisher.nowMs };
  const viewers = kbits.map((kbit) => {
    const viewer = stage.watch(0, { readsDependencies });
    return { ...viewer, kbit, allocation: new Allocation(new SentPackets(), host) };
  });
  let since = 0;
  for (let n = 0; n < 900; n++) {
    publisher.picture(n === 0 || stage.layer.keyframeDue);
    if (n % 6 === 0)
      for (const { subscription, allocation, kbit } of viewers) {
        allocation.onRemb(kbit * 1_000, publisher.nowMs);
        allocation.run(new Map([["t", subscription]]), publisher.nowMs);
      }
    if (n !== 599) continue;
    since = publisher.nowMs;
    for (const { seen } of viewers) seen.splice(0);
  }
  for (const { allocation } of viewers) allocation.close();
  const seconds = (publisher.nowMs - since) / 1_000;
  return viewers.map(({ seen }) => {
    const bytes = seen.reduce((sum, { payload }) => sum + payload.length, 0);
    return Math.round((bytes * 8) / seconds / 1_000);
  });
}

test.each(["VP9", "AV1"] as const)("%s: viewers of 200, 800 and 3,000 kbit/s get what fits of one stream", (codec) => {
  const [poor = 0, fair = 0, good = 0] = watched(codec, [200, 800, 3_000]);
  // Trials of the next layer are part of it.
  expect(poor).toBeWithin(90, 200);
  expect(fair).toBeWithin(300, 600);
  expect(good).toBeWithin(820, 850);
});

test("a viewer that does not read the dependency descriptor gets the lowest layer of AV1, and all of VP9", () => {
  expect(watched("AV1", [3_000], false)[0]).toBeWithin(90, 100);
  expect(watched("VP9", [3_000], false)[0]).toBeWithin(820, 850);
});
