import { beforeEach, describe, expect, test } from "bun:test";
import { Dynacast } from "../../../src/sfu/tracks/dynacast.ts";
import { Publication } from "../../../src/sfu/tracks/publication.ts";
import type { PublishedLayer } from "../../../src/sfu/tracks/published-layer.ts";
import type { Subscription } from "../../../src/sfu/tracks/subscription.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { noExtensions } from "../../../src/sfu/wire/sdp/extensions.ts";

function track(rids: string[]): Publication {
  const publication = new Publication({
    trackId: "t",
    clientTrackId: "c",
    identity: "ann",
    mid: "0",
    kind: "video",
    source: "camera",
    rids,
    extensions: noExtensions(),
    udp: {} as UdpPort,
  });
  publication.announced = true;
  return publication;
}

describe("layers that a publisher need not encode", () => {
  let dynacast: Dynacast;
  let publication: Publication;
  const watch = (...layers: (number | null)[]) => {
    publication.subscriptions.length = 0;
    for (const desiredLayer of layers) publication.subscriptions.push({ desiredLayer } as Subscription);
  };

  beforeEach(() => {
    dynacast = new Dynacast();
    publication = track(["q", "h", "f"]);
  });

  test("all layers are wanted at first, and layers without a subscriber for five seconds are not", () => {
    watch(1);
    expect(dynacast.update(publication, 0)).toBeNull();
    expect(dynacast.update(publication, 4_900)).toBeNull();
    expect(dynacast.update(publication, 5_000)).toEqual(["low", "medium"]);
    expect(dynacast.update(publication, 6_000)).toBeNull();
  });

  test("the publisher is not notified if a viewer comes back in time", () => {
    watch(0);
    dynacast.update(publication, 0);
    watch(0, 2);
    expect(dynacast.update(publication, 4_000)).toBeNull();
    watch(0);
    expect(dynacast.update(publication, 5_000)).toBeNull();
    expect(dynacast.update(publication, 9_900)).toBeNull();
    expect(dynacast.update(publication, 10_000)).toEqual(["low"]);
  });

  test("a higher layer is requested at once", () => {
    watch(0);
    dynacast.update(publication, 0);
    dynacast.update(publication, 5_000);
    watch(0, 2);
    expect(dynacast.update(publication, 5_100)).toEqual(["low", "medium", "high"]);
  });

  test("without subscribers no layer is wanted, and a paused subscriber does not count", () => {
    watch(null);
    dynacast.update(publication, 0);
    expect(dynacast.update(publication, 5_000)).toEqual([]);
  });

  test("a track with one layer is on or off, and audio has no layers", () => {
    publication = track([]);
    watch();
    dynacast.update(publication, 0);
    expect(dynacast.update(publication, 5_000)).toEqual([]);
    watch(0);
    expect(dynacast.update(publication, 5_100)).toEqual(["high"]);
  });

  test("two layers keep their names", () => {
    publication = track(["h", "f"]);
    expect(publication.layers.map((layer: PublishedLayer) => publication.layerName(layer.index))).toEqual([
      "medium",
      "high",
    ]);
    watch(1);
    dynacast.update(publication, 0);
    expect(dynacast.update(publication, 5_000)).toEqual(["medium"]);
  });
});
