/**
 * Prints, as JSON, which files of `src` one chat message, one packet, one REST call, one webhook event and one join go through.
 * `bin/bun --preload ./test/walks/tracer.ts ./test/walks/walk.ts`
 */
import { LoadPeer } from "../../src/load-test/load-peer.ts";
import { RtpSource } from "../../src/load-test/rtp-source.ts";
import type { MediaMethod, MediaRequest, MediaResponse } from "../../src/protocol/media-node.ts";
import { Engine } from "../../src/sfu/engine.ts";
import type { WorkerCall } from "../../src/sfu/worker-protocol.ts";
import { chatWorld } from "../chat/world.ts";
import { rtcServer, settled } from "../harness/rtc.ts";
import { nativeLibraryPath } from "../sfu/packet-paths.ts";
import { ALL, CAMERA } from "../sfu/room-of-peers.ts";
import { startReceiver } from "../webhooks/receiver.ts";

const ROUNDS = 10;
/** What a round has left to do is done before the next one. */
const PAUSE_MS = 20;

/** What each round enters: timers and jobs that happen to fall into one of them are not part of the way. */
async function filesOf(once: () => Promise<unknown>): Promise<string[]> {
  await once();
  const rounds: Set<string>[] = [];
  while (rounds.length < ROUNDS) {
    await Bun.sleep(PAUSE_MS);
    walked.clear();
    await once();
    rounds.push(new Set(walked.files()));
  }
  return [...rounds.reduce((common, round) => common.intersection(round))];
}

async function messageAndRequest(): Promise<{ message: string[]; request: string[] }> {
  const world = await chatWorld();
  const room = await world.room("r", ["ann", "bob"]);
  const [ann, bob] = [await world.client("ann"), await world.client("bob")];
  for (const client of [ann, bob]) await client.ask("room.join", { room });
  let sent = 0;
  const message = await filesOf(async () => {
    const before = bob.frames.length;
    const answer = await ann.ask("message.send", { room, text: `hello ${++sent}` });
    if (answer.type !== "ack") throw new Error(JSON.stringify(answer));
    await bob.until(() => bob.frames.length > before);
  });
  const request = await filesOf(async () => {
    const { status, text } = await world.call("GET", "/v1/project");
    if (status !== 200) throw new Error(text);
  });
  await world.close();
  return { message, request };
}

async function event(): Promise<string[]> {
  const { server, people, projectId, call, close } = await chatWorld();
  const { bus, write } = server.runtime;
  const environment = "DEVELOPMENT";
  const receiver = startReceiver();
  const { token } = await people.session({ projectId, role: "OWNER" });
  const hook = { url: receiver.url, environment };
  const made = await call("POST", `/v1/projects/${projectId}/webhooks?environment=${environment}`, token, hook);
  if (made.status !== 201) throw new Error(made.text);
  const delivered = () => new Promise<void>((done) => bus.on("webhookAttempted", () => done()));
  const files = await filesOf(async () => {
    const over = delivered();
    const at = Date.now();
    const data = { streamId: "stream_1", identity: "ann", at: new Date(at).toISOString() };
    await write((unit) =>
      bus.announce(unit, "webhook", { type: "live_stream.viewer_joined", projectId, environment, at, data }),
    );
    await over;
  });
  receiver.close();
  await close();
  return files;
}

async function join(): Promise<string[]> {
  const server = await rtcServer();
  const roomId = await server.room();
  let joined = 0;
  const files = await filesOf(async () => {
    await server.joined(roomId, `participant-${++joined}`);
    await settled();
  });
  await server.close();
  return files;
}

/** In this thread, as the one packet that it is: what clients do to it is none of the server's. */
async function packet(): Promise<string[]> {
  const roomId = "room";
  let announced = (_trackId: string) => {};
  const trackId = new Promise<string>((resolve) => {
    announced = resolve;
  });
  const engine = await Engine.start(
    {
      ...{ hostname: "127.0.0.1", port: 0, announce: ["127.0.0.1"], tcp: false },
      srtpProfiles: ["AEAD_AES_128_GCM"],
      nativeLibrary: await nativeLibraryPath(),
    },
    {
      emit: (event) => {
        if (event.type === "trackPublished") announced(event.track.id);
      },
      onFault: (error) => {
        throw error;
      },
    },
  );
  const call = async <M extends MediaMethod>(method: M, request: MediaRequest<M>): Promise<MediaResponse<M>> =>
    engine.call({ type: "call", id: 0, method, request } as WorkerCall) as MediaResponse<M>;
  const enter = async (identity: string, direction: "sendonly" | "recvonly", onRtp = () => {}) => {
    await call("addParticipant", { roomId, participantId: identity, identity, permissions: ALL });
    return LoadPeer.create({
      ...{ roomId, participantId: identity, sections: [{ kind: "video", direction }], onRtp },
      node: { negotiate: (request) => call("negotiate", request) },
    });
  };

  await call("openRoom", { roomId });
  let seen = 0;
  let arrived = () => {};
  const publisher = await enter("publisher", "sendonly");
  await publisher.connect([CAMERA], []);
  const source = new RtpSource({ ssrc: 77, payloadType: 96, mid: CAMERA.mid });
  const send = async (isKeyframe: boolean) => {
    const before = seen;
    const here = new Promise<void>((resolve) => {
      arrived = () => {
        if (seen > before) resolve();
      };
    });
    source.sendFrame(publisher, isKeyframe);
    await here;
  };
  source.sendFrame(publisher, false);
  const viewer = await enter("viewer", "recvonly", () => {
    seen += 1;
    arrived();
  });
  await viewer.connect([], [{ mid: "0", trackId: await trackId }]);
  await send(true);
  const files = await filesOf(() => send(false));
  for (const peer of [publisher, viewer]) peer.close();
  engine.close();
  return files;
}

console.log(
  JSON.stringify({ ...(await messageAndRequest()), event: await event(), join: await join(), packet: await packet() }),
);
process.exit(0);
