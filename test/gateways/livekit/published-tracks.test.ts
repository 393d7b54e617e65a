import { expect, test } from "bun:test";
import { AddTrackRequest, SimulcastCodec, TrackSource, TrackType } from "@livekit/protocol";
import { readSections } from "../../../src/gateways/livekit/negotiation/session-description.ts";
import { PublishedTracks } from "../../../src/gateways/livekit/published-tracks.ts";

const permissions = { publish: true, publishAudio: false, publishVideo: false };
const publishing = () => new PublishedTracks({ permissions, room: {} } as never);
const add = (to: PublishedTracks, cid: string, source: TrackSource) =>
  to.add(new AddTrackRequest({ cid, type: TrackType.VIDEO, source })) as { trackId: string };
const section = (mid: string, msid: string, more = "", port = 9) =>
  `m=video ${port} UDP/TLS/RTP/SAVPF 96\r\na=mid:${mid}\r\na=sendonly\r\na=msid:- ${msid}\r\n${more}`;

test("tracks that Firefox offers with other ids, on sections with port 0, are matched to those it announced, even in later offers", () => {
  const to = publishing();
  const camera = add(to, "{camera}", TrackSource.CAMERA);
  const first = section("0", "{other}", "a=bundle-only\r\n", 0);
  const placed = (sdp: string) =>
    to.publishedSections(readSections(`v=0\r\n${sdp}`), {}).map(({ mid, trackId }) => [mid, trackId]);
  expect(placed(first)).toEqual([["0", camera.trackId]]);

  const screen = add(to, "{screen}", TrackSource.SCREEN_SHARE);
  expect(placed(first + section("1", "{another}"))).toEqual([
    ["0", camera.trackId],
    ["1", screen.trackId],
  ]);
  // Sections beyond the announced tracks publish nothing, and neither do rejected ones.
  expect(placed(first + section("1", "{another}") + section("2", "{third}"))).toHaveLength(2);
  expect(placed(section("0", "{other}", "", 0))).toEqual([]);

  to.remove(camera.trackId);
  const again = add(to, "{again}", TrackSource.CAMERA);
  expect(placed(section("0", "{other}") + section("1", "{another}"))).toEqual([
    ["0", again.trackId],
    ["1", screen.trackId],
  ]);
});

test("a section that names its track gets that track, whatever the order of announcement", () => {
  const to = publishing();
  const [camera, screen] = [add(to, "camera", TrackSource.CAMERA), add(to, "screen", TrackSource.SCREEN_SHARE)];
  const sections = readSections(`v=0\r\n${section("0", "unknown")}${section("1", "camera")}`);
  expect(to.publishedSections(sections, {}).map(({ trackId }) => trackId)).toEqual([screen.trackId, camera.trackId]);
});

test("a codec with the name of a property that every object has is unknown, and a newer process can continue the session", () => {
  for (const codec of ["constructor", "__proto__", "toString"]) {
    const to = publishing();
    const simulcastCodecs = [new SimulcastCodec({ codec })];
    const added = to.add(new AddTrackRequest({ cid: "face", type: TrackType.VIDEO, simulcastCodecs }));
    expect(added).toMatchObject({ info: { mimeType: "video/VP8" } });
    const { sid } = (added as { info: { sid: string } }).info;
    to.add(new AddTrackRequest({ cid: "backup", sid, type: TrackType.VIDEO, simulcastCodecs }));
    expect(JSON.stringify(to.state())).not.toContain("native code");
  }
});
