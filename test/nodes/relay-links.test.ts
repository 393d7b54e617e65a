import { expect, test } from "bun:test";
import { type LinkEnd, RelayLinks } from "../../src/nodes/relay-links.ts";
import { MAX_LINK_TRACKS, type RelayedTrack } from "../../src/protocol/media/relay.ts";

type Call = [method: string, id: unknown];

class End implements LinkEnd {
  readonly calls: Call[] = [];
  async relay(method: string, request: object): Promise<void> {
    this.calls.push([method, "trackId" in request ? request.trackId : null]);
  }
  count = (method: string) => this.calls.filter(([called]) => called === method).length;
}

async function linked(rooms = ["r"]) {
  const [one, two] = [new End(), new End()];
  const lost: string[] = [];
  let linkId = "";
  const links: RelayLinks<End> = new RelayLinks<End>({
    async open(link) {
      linkId = link.linkId;
      for (const end of link.ends) links.received(end, { type: "linkChanged", linkId, state: "up", rttMs: 1 });
    },
    lost: (link) => void lost.push(...link.rooms),
  });
  for (const roomId of rooms) await links.share(roomId, one, two);
  const offer = (from: End, trackId: string, roomId = "r") =>
    links.received(from, { type: "relayOffered", track: { roomId, linkId, trackId } as RelayedTrack });
  return { links, one, two, lost, linkId, offer };
}

test("rooms of the same two ends share one link, which is closed with the last of them", async () => {
  const { links, one, two } = await linked(["r", "s"]);
  expect([links.size, one.count("shareRoom"), two.count("shareRoom")]).toEqual([1, 2, 2]);
  links.unshare("r", one);
  expect([links.size, two.count("unshareRoom"), two.count("closeLink")]).toEqual([1, 1, 0]);
  links.unshare("s", one);
  expect([links.size, one.count("closeLink"), two.count("closeLink")]).toEqual([0, 1, 1]);
});

test("a track belongs to the end that offered it first, and only that one mutes and ends it", async () => {
  const { links, one, two, linkId, offer } = await linked();
  const track = { roomId: "r", linkId, trackId: "t" };
  offer(one, "t");
  offer(two, "t");
  for (const from of [two, new End()]) {
    links.received(from, { type: "relayMuted", ...track, muted: true });
    links.received(from, { type: "relayEnded", ...track });
  }
  expect([two.count("addRelayed"), two.calls.length, one.count("addRelayed")]).toEqual([1, 2, 0]);
  links.received(one, { type: "relayMuted", ...track, muted: true });
  links.received(one, { type: "relayEnded", ...track });
  expect(two.calls.slice(-2)).toEqual([
    ["muteRelayed", "t"],
    ["removeRelayed", "t"],
  ]);
  // The track is free again, in a room that uses the link.
  offer(two, "t");
  offer(two, "u", "another room");
  expect(one.count("addRelayed")).toBe(1);
});

test("a link takes a limited number of tracks", async () => {
  const { two, one, offer } = await linked();
  for (let n = 0; n <= MAX_LINK_TRACKS; n++) offer(one, `t${n}`);
  offer(one, "t0");
  expect(two.count("addRelayed")).toBe(MAX_LINK_TRACKS + 1);
  expect(two.calls.some(([, id]) => id === `t${MAX_LINK_TRACKS}`)).toBe(false);
});

test("a link that one end reports as down is closed at both ends, and its rooms are reported", async () => {
  const { links, one, two, lost, linkId } = await linked(["r", "s"]);
  links.received(one, { type: "linkChanged", linkId, state: "silent", rttMs: 1 });
  expect([links.size, lost]).toEqual([1, []]);
  links.received(one, { type: "linkChanged", linkId, state: "down", rttMs: null });
  links.received(two, { type: "linkChanged", linkId, state: "down", rttMs: null });
  expect([links.size, lost, two.count("closeLink")]).toEqual([0, ["r", "s"], 1]);
});

test("two workers are not linked when one fails to open its end", async () => {
  const links = new RelayLinks<End>({
    open: async () => {
      throw new Error("no");
    },
  });
  await expect(links.share("r", new End(), new End())).rejects.toThrow("not up");
  expect(links.size).toBe(0);
});
