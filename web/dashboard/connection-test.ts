import type { Room, RoomStats } from "../sdk/index.ts";
import { ADVICE } from "./connection-advice.ts";
import { durationText } from "./parts/time.tsx";
import { roomClient } from "./room-client.ts";

export const STEPS = {
  socket: "WebSocket to the server",
  path: "A path for media",
  transport: "UDP or TCP",
  publish: "Sending",
  receive: "Receiving",
  reconnect: "Coming back after a loss",
} as const;
export type StepName = keyof typeof STEPS;

/** `slow` works, but could be better; `skipped` could not be tried because something before it failed. */
type StepResult = {
  status: "running" | "passed" | "slow" | "failed" | "skipped";
  detail: string;
  advice: string | null;
};
export type Results = Partial<Record<StepName, StepResult>>;

type Admission = { endpoint: string; token: string; iceServers: { urls: string[] }[] };
type TestDeps = {
  /** As a network that lets out nothing but port 443 would have it. */
  relayOnly: boolean;
  /** A token for the room of the test; asked for twice, because one who sends does not hear himself. */
  admit: (identity: string) => Promise<Admission>;
  onResults: (results: Results) => void;
};

const PATIENCE_MS = 12_000;
const LOOK_EVERY_MS = 200;

class Failed extends Error {}
class WithoutRelay extends Error {}

/** Walks the whole way of a call with a picture of its own: no camera is asked for. Answers when all steps are known. */
export async function testConnection({ admit, relayOnly, onResults }: TestDeps): Promise<Results> {
  const results: Results = {};
  const rooms: Room[] = [];
  const picture = movingPicture();
  let hasRelay = false;
  const tell = (name: StepName, result: StepResult) => {
    results[name] = result;
    onResults({ ...results });
  };

  async function step(name: StepName, work: () => Promise<Omit<StepResult, "advice"> & { advice?: string }>) {
    tell(name, { status: "running", detail: "", advice: null });
    try {
      tell(name, { advice: null, ...(await work()) });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      const advice = error instanceof WithoutRelay ? ADVICE.noRelay : ADVICE[name];
      tell(name, { status: "failed", detail, advice });
      throw new Failed();
    }
  }

  async function enter(identity: string): Promise<Room> {
    const [{ connect }, admission] = await Promise.all([roomClient(), admit(identity)]);
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
      await room.localParticipant.publish(picture.track, { source: "camera" });
      return passed("negotiated");
    });
    await step("path", async () => {
      if (relayOnly && !hasRelay) throw new WithoutRelay("this server has no relay");
      stats = await until("no pair of addresses answered", async () => {
        const read = await room.getStats();
        return read?.path ? read : null;
      });
      return passed(`round trip ${durationText(stats.rttMs)}`);
    });
    await step("transport", async () => judge((stats as unknown as RoomStats).path, relayOnly));
    await step("publish", async () => {
      const sent = await until("no packet left", () => flowing(room, "out"));
      return passed(`${Math.round(sent / 1000)} kbit/s`);
    });
    await step("receive", async () => {
      const receiver = await enter("test-receiver");
      const received = await until("no packet arrived", () => flowing(receiver, "in"));
      return passed(`${Math.round(received / 1000)} kbit/s`);
    });
    await step("reconnect", async () => passed(`back after ${durationText(await lose(room))}`));
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    for (const name of Object.keys(STEPS) as StepName[]) {
      if (results[name] === undefined || results[name].status === "running") {
        tell(name, { status: "skipped", detail: "not tried", advice: null });
      }
    }
  } finally {
    picture.stop();
    await Promise.all(rooms.map((room) => room.close()));
  }
  return results;
}

const passed = (detail: string) => ({ status: "passed" as const, detail });

function judge(path: RoomStats["path"], relayOnly: boolean): Omit<StepResult, "advice"> & { advice?: string } {
  if (relayOnly) return passed("through the relay");
  if (path === "udp") return passed("UDP, straight to the server");
  if (path === "relay") return { status: "slow", detail: "through a TURN server", advice: ADVICE.relayed };
  return { status: "slow", detail: "TCP", advice: ADVICE.tcp };
}

async function flowing(room: Room, direction: "in" | "out"): Promise<number | null> {
  const stats = await room.getStats();
  const bps = stats?.tracks
    .filter((track) => track.direction === direction && track.kind === "video")
    .map((t) => t.bps);
  return bps?.find((value) => value !== null && value > 0) ?? null;
}

/** Cuts the socket and waits until the room is whole again. */
function lose(room: Room): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it did not come back")), PATIENCE_MS);
    room.on("connectionStateChanged", (state, error) => {
      if (state === "RECONNECTING") return;
      clearTimeout(timer);
      if (state === "CONNECTED") resolve(performance.now() - startedAt);
      else reject(error ?? new Error("it did not come back"));
    });
    room.simulateReconnect();
  });
}

async function until<T>(otherwise: string, look: () => Promise<T | null>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  while (performance.now() < deadline) {
    const found = await look();
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  throw new Error(otherwise);
}

const PICTURE_FPS = 10;

/** A picture that moves, so that an encoder has something to send. */
function movingPicture(): { track: MediaStreamTrack; stop: () => void } {
  const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
  const pen = canvas.getContext("2d");
  let turn = 0;
  const draw = () => {
    if (!pen) return;
    turn += 1;
    pen.fillStyle = `hsl(${(turn * 9) % 360} 70% 50%)`;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = "white";
    pen.fillRect((turn * 7) % canvas.width, 60, 60, 60);
  };
  draw();
  const timer = setInterval(draw, 1000 / PICTURE_FPS);
  const [track] = canvas.captureStream(PICTURE_FPS).getVideoTracks();
  if (!track) throw new Error("This browser cannot send a canvas.");
  return {
    track,
    stop: () => {
      clearInterval(timer);
      track.stop();
    },
  };
}
