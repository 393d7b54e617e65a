import type { Room, RoomStats } from "../sdk/index.ts";
import { loadSdk } from "./load-sdk.ts";
import { durationText } from "./parts/time.tsx";

export const STEPS = {
  socket: "WebSocket to the server",
  path: "Media path",
  transport: "UDP or TCP",
  publish: "Sending",
  receive: "Receiving",
  reconnect: "Reconnecting",
} as const;
export type StepName = keyof typeof STEPS;

/** `slow` works but could be better; `skipped` was not tried because an earlier step failed. */
type StepResult = {
  status: "running" | "passed" | "slow" | "failed" | "skipped";
  detail: string;
  advice: string | null;
};
export type Results = Partial<Record<StepName, StepResult>>;

/** What to do when a step fails or is slow. */
const ADVICE = {
  socket:
    "The page can reach the API, but not the socket. If a proxy stands in front of the server, let it pass WebSocket " +
    "upgrades for /v1/rtc and keep them open.",
  path:
    "The socket works, but no media packet came through. Open the media port (MEDIA_UDP_PORT, 7001 unless changed) for " +
    "UDP and TCP in every firewall on the way, and set PUBLIC_IP to the address under which browsers reach the server. " +
    "For networks that let only port 443 out, start the server with DOMAIN, or add a TURN server with TURN_URLS.",
  noRelay:
    "Start the server with DOMAIN (or TLS_CERT and TLS_KEY): it then relays media at port 443 itself. Or name another " +
    "TURN server with TURN_URLS.",
  transport: "The browser did not report how its packets travel. Try another browser.",
  tcp:
    "It works, but over TCP: every lost packet then holds up all that follow. Open the media port for UDP between this " +
    "network and the server.",
  relayed:
    "It works, but through a TURN server, which adds delay and carries all traffic. Open the media port for UDP if this " +
    "network can be changed.",
  publish:
    "The connection stands, but nothing could be sent. Check the server's log for this time; a browser extension that " +
    "blocks WebRTC is the usual cause.",
  receive:
    "Sending works, receiving does not. Look at the load of the media server, and whether a firewall lets packets out of " +
    "it but not back.",
  reconnect:
    "The first connection worked, a second one did not. Look for a proxy that limits connections, or for " +
    "SIGNALING_MAX_CONNECTIONS_PER_WINDOW: behind a proxy, set TRUSTED_PROXIES, or all clients count as one address.",
} as const;

type Admission = { endpoint: string; token: string; iceServers: { urls: string[] }[] };
type TestDeps = {
  /** Whether to use only the relay, as in a network that allows only port 443. */
  relayOnly: boolean;
  /** Mints a token for the test room; called for a sender and for a receiver. */
  admit: (identity: string) => Promise<Admission>;
  onResults: (results: Results) => void;
};

const TIMEOUT_MS = 12_000;
const POLL_MS = 200;

class Failed extends Error {}
class MissingRelay extends Error {}

/** Tests all steps of a call with a generated video, without a camera. Resolves when all steps have a result. */
export async function testConnection({ admit, relayOnly, onResults }: TestDeps): Promise<Results> {
  const results: Results = {};
  const rooms: Room[] = [];
  const video = testVideo();
  let hasRelay = false;
  const report = (name: StepName, result: StepResult) => {
    results[name] = result;
    onResults({ ...results });
  };

  async function step(name: StepName, work: () => Promise<Omit<StepResult, "advice"> & { advice?: string }>) {
    report(name, { status: "running", detail: "", advice: null });
    try {
      report(name, { advice: null, ...(await work()) });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      const advice = error instanceof MissingRelay ? ADVICE.noRelay : ADVICE[name];
      report(name, { status: "failed", detail, advice });
      throw new Failed();
    }
  }

  async function enter(identity: string): Promise<Room> {
    const [{ connect }, admission] = await Promise.all([loadSdk(), admit(identity)]);
    const { endpoint, token, iceServers } = admission;
    hasRelay = iceServers.some(({ urls }) => urls.some((url) => url.startsWith("turn")));
    const room = await connect(endpoint, token, { relayOnly });
    rooms.push(room);
    return room;
  }

  try {
    let sender: Room | null = null;
    let stats: RoomStats | null = null;
    await step("socket", async () => {
      const startedAt = performance.now();
      sender = await enter("test-sender");
      return passed(`joined in ${durationText(performance.now() - startedAt)}`);
    });
    const room = sender as unknown as Room;
    await step("publish", async () => {
      await room.localParticipant.publish(video.track, { source: "camera" });
      return passed("negotiated");
    });
    await step("path", async () => {
      if (relayOnly && !hasRelay) throw new MissingRelay("this server has no relay");
      stats = await poll("no candidate pair responded", async () => {
        const read = await room.getStats();
        return read?.path ? read : null;
      });
      return passed(`round trip ${durationText(stats.rttMs)}`);
    });
    await step("transport", async () => transportResult((stats as unknown as RoomStats).path, relayOnly));
    await step("publish", async () => {
      const sent = await poll("no packet was sent", () => currentBitrate(room, "out"));
      return passed(`${Math.round(sent / 1000)} kbit/s`);
    });
    await step("receive", async () => {
      const receiver = await enter("test-receiver");
      const received = await poll("no packet arrived", () => currentBitrate(receiver, "in"));
      return passed(`${Math.round(received / 1000)} kbit/s`);
    });
    await step("reconnect", async () => passed(`back after ${durationText(await measureReconnect(room))}`));
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    for (const name of Object.keys(STEPS) as StepName[]) {
      if (results[name] === undefined || results[name].status === "running") {
        report(name, { status: "skipped", detail: "not tried", advice: null });
      }
    }
  } finally {
    video.stop();
    await Promise.all(rooms.map((room) => room.close()));
  }
  return results;
}

const passed = (detail: string) => ({ status: "passed" as const, detail });

function transportResult(
  path: RoomStats["path"],
  relayOnly: boolean,
): Omit<StepResult, "advice"> & { advice?: string } {
  if (relayOnly) return passed("through the relay");
  if (path === "udp") return passed("UDP, directly to the server");
  if (path === "relay") return { status: "slow", detail: "through a TURN server", advice: ADVICE.relayed };
  return { status: "slow", detail: "TCP", advice: ADVICE.tcp };
}

async function currentBitrate(room: Room, direction: "in" | "out"): Promise<number | null> {
  const stats = await room.getStats();
  const bps = stats?.tracks
    .filter((track) => track.direction === direction && track.kind === "video")
    .map((t) => t.bps);
  return bps?.find((value) => value !== null && value > 0) ?? null;
}

/** Drops the connection and resolves with the time until the room is connected again. */
function measureReconnect(room: Room): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it did not reconnect")), TIMEOUT_MS);
    room.on("connectionStateChanged", (state, error) => {
      if (state === "RECONNECTING") return;
      clearTimeout(timer);
      if (state === "CONNECTED") resolve(performance.now() - startedAt);
      else reject(error ?? new Error("it did not reconnect"));
    });
    room.simulateReconnect();
  });
}

async function poll<T>(otherwise: string, look: () => Promise<T | null>): Promise<T> {
  const deadline = performance.now() + TIMEOUT_MS;
  while (performance.now() < deadline) {
    const found = await look();
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error(otherwise);
}

const VIDEO_FPS = 10;

/** An animated canvas, so that the encoder has something to send. */
function testVideo(): { track: MediaStreamTrack; stop: () => void } {
  const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
  const context = canvas.getContext("2d");
  let frame = 0;
  const draw = () => {
    if (!context) return;
    frame += 1;
    context.fillStyle = `hsl(${(frame * 9) % 360} 70% 50%)`;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = "white";
    context.fillRect((frame * 7) % canvas.width, 60, 60, 60);
  };
  draw();
  const timer = setInterval(draw, 1000 / VIDEO_FPS);
  const [track] = canvas.captureStream(VIDEO_FPS).getVideoTracks();
  if (!track) throw new Error("This browser cannot capture a canvas.");
  return {
    track,
    stop: () => {
      clearInterval(timer);
      track.stop();
    },
  };
}
