import type { RoomData } from "../../src/protocol/data/room-data.ts";
import type { Track } from "../../src/protocol/room-records.ts";
import { MediaConnection, type SubscribedTrack } from "../../src/rtc-client/participant/media-connection.ts";
import type { EncodedVideo } from "../../src/rtc-client/participant/participant-events.ts";
import { SimulatedNetwork } from "../../src/rtc-client/participant/simulated-network.ts";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import type { Stoa } from "../../web/sdk/server.ts";

type Tap = {
  onVideo?: (identity: string, frame: EncodedVideo) => void;
  onAudio?: (samples: Int16Array) => void;
};

/**
 * Takes the frames of a room as the server has them, without a key; the SDKs would not even subscribe. Returns a function
 * that ends it.
 */
export async function tapRoom(stoa: Stoa, url: string, roomId: string, { onVideo, onAudio }: Tap) {
  const { token } = await stoa.rtcTokens.mint(roomId, { participantIdentity: "tap" });
  const tracks: SubscribedTrack[] = [];
  const add = (identity: string, { id, kind }: Track) => {
    tracks.push({ trackId: id, identity, kind, encrypted: true });
  };
  const client = new SignalingClient({
    url,
    token,
    // A track is announced with its first packet, which an encoder may take a while for.
    onPush: (push) => {
      if (push.type !== "track.published") return;
      add(push.identity, push.track);
      void media.subscribe(tracks);
    },
  });
  const media = new MediaConnection({
    network: new SimulatedNetwork(),
    data: { connect: () => {} } as unknown as RoomData,
    cipher: null,
    negotiate: (offer) => client.negotiate(offer),
    onAudio: (_track, { samples }) => onAudio?.(samples),
    onVideo: ({ identity }, frame) => onVideo?.(identity, frame),
  });
  const { participants } = await client.join();
  for (const { identity, tracks } of participants) for (const track of tracks) add(identity, track);
  await media.connect(tracks);
  return async () => {
    media.close();
    await client.leave();
  };
}
