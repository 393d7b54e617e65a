import { expect, test } from "bun:test";
import { AddTrackRequest, SimulcastCodec, TrackSource, TrackType, UpdateTrackSettings } from "@livekit/protocol";
import { readSections, withPreferences } from "../../../src/gateways/livekit/negotiation/session-description.ts";
import { PublishedTracks } from "../../../src/gateways/livekit/published-tracks.ts";
import { TrackSelection } from "../../../src/gateways/livekit/track-selection.ts";

const AUDIO = `m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9
a=mid:0
a=sendonly
a=msid:- voice
a=rtpmap:111 opus/48000/2
a=fmtp:111 minptime=10;useinbandfec=1
a=rtpmap:63 red/48000/2
a=fmtp:63 111/111
a=rtpmap:9 G722/8000
`.replaceAll("\n", "\r\n");
const VIDEO = `m=video 9 UDP/TLS/RTP/SAVPF 96 97 102 103 104
a=mid:1
a=sendonly
a=msid:- face
a=rtpmap:96 VP8/90000
a=rtpmap:97 rtx/90000
a=rtpmap:102 H264/90000
a=rtpmap:103 rtx/90000
a=rtpmap:104 H264/90000
`.replaceAll("\n", "\r\n");
const OFFER = `v=0\r\ns=-\r\n${AUDIO}${VIDEO}`;

/** The offer as the media node gets it, when these tracks were announced. */
function offered(...tracks: Partial<AddTrackRequest>[]): string {
  const permissions = { publish: true, publishAudio: false, publishVideo: false };
  const published = new PublishedTracks({ permissions, room: {} } as never);
  for (const track of tracks) published.add(new AddTrackRequest(track));
  const sections = published.publishedSections(readSections(OFFER), {});
  return withPreferences(OFFER, published.preferences(sections));
}

const voice = { cid: "voice", type: TrackType.AUDIO, source: TrackSource.MICROPHONE };
const face = { cid: "face", type: TrackType.VIDEO, source: TrackSource.CAMERA };
const h264 = [new SimulcastCodec({ codec: "h264", cid: "face" })];

test("audio asks for RED and DTX, and for stereo when the client publishes stereo", () => {
  const sdp = offered(voice, face);
  expect(sdp).toContain("m=audio 9 UDP/TLS/RTP/SAVPF 63 111 9\r\n");
  expect(sdp).toContain("a=fmtp:111 minptime=10;useinbandfec=1;usedtx=1\r\n");
  expect(sdp).toContain("a=fmtp:63 111/111\r\n");
  expect(offered({ ...voice, stereo: true })).toContain("useinbandfec=1;usedtx=1;stereo=1\r\n");
});

test("a client that wants neither RED nor DTX gets plain Opus", () => {
  expect(offered({ ...voice, disableRed: true, disableDtx: true })).toBe(OFFER);
});

test("the codec that a video track asks for comes first; without one the offer stays as it is", () => {
  expect(offered({ ...face, simulcastCodecs: h264 })).toContain("m=video 9 UDP/TLS/RTP/SAVPF 102 104 96 97 103\r\n");
  expect(offered(face)).toBe(OFFER);
  expect(offered()).toBe(OFFER);
});

test("the frame rate that a client asks for bounds its subscription, until it lifts the bound", () => {
  const selection = new TrackSelection({} as never, true);
  const bound = (fps: number) => {
    selection.updateSettings(["face"], new UpdateTrackSettings({ fps }));
    return selection.settingsOf("face").maxFps;
  };
  expect([0, 12, 1_000, 12, 0].map(bound)).toEqual([undefined, 12, 240, 12, 240]);
});
