import type { RoomData } from "../../src/protocol/data/room-data.ts";
import { MediaConnection } from "../../src/rtc-client/participant/media-connection.ts";
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
  const client = new SignalingClient({ url, token });
  const { participants } = await client.join();
  const media = new MediaConnection({
    network: new SimulatedNetwork(),
    data: { connect: () => {} } as unknown as RoomData,
    cipher: null,
    negotiate: (offer) => client.negotiate(offer),
    onAudio: (_track, { samples }) => onAudio?.(samples),
    onVideo: ({ identity }, frame) => onVideo?.(identity, frame),
  });
  await media.connect(
    participants.flatMap(({ identity, tracks }) =>
      tracks.map(({ id, kind }) => ({ trackId: id, identity, kind, encrypted: true })),
    ),
  );
  return async () => {
    media.close();
    await client.leave();
  };
}
