/** People who come and go without a pause, by every way there is, until the server is gone. */
import type { Api } from "../../harness/api.ts";

const ROOMS = 6;
const VISITORS = 10;
const LONGEST_STAY_MS = 250;

export type Churn = {
  /** Rooms that a participant joined before a later write was acknowledged: what was written before is on disk. */
  entered: Set<string>;
  /** Resolves once `joins` more participants have joined. */
  more(joins: number): Promise<void>;
  stop(): Promise<void>;
};

export async function startChurn(api: Api, round: number): Promise<Churn> {
  const rooms: string[] = [];
  for (let n = 0; n < ROOMS; n++) rooms.push(await api.room(`round-${round}-${n}`));
  // No participant is ever let into this room.
  const shut = await api.room(`round-${round}-shut`);
  const entered = new Set<string>();
  const waiting: { count: number; done: () => void }[] = [];
  let joins = 0;
  let stopped = false;

  const counted = () => {
    joins += 1;
    for (const { count, done } of waiting) if (joins >= count) done();
  };

  const visited = new Map<string, string>();
  async function visit(identity: string): Promise<void> {
    const roomId = pick(rooms);
    const { token } = await api.mint(roomId, identity);
    const before = visited.get(identity);
    if (before !== undefined) entered.add(before);
    const socket = await enter(api.url, token);
    if (socket === null) return;
    visited.set(identity, roomId);
    counted();
    await Bun.sleep(Math.random() * LONGEST_STAY_MS);
    const way = Math.random();
    if (way < 0.6) socket.send(JSON.stringify({ type: "room.leave", id: "leave" }));
    else if (way < 0.8) socket.terminate();
    // Another device of the same person takes over, and goes.
    else {
      const other = await enter(api.url, token);
      await Bun.sleep(Math.random() * LONGEST_STAY_MS);
      other?.send(JSON.stringify({ type: "room.leave", id: "leave" }));
      await Bun.sleep(10);
      other?.terminate();
    }
    await Bun.sleep(10);
    socket.terminate();
  }

  async function knock(): Promise<void> {
    const { token } = await api.mint(shut, "nobody", { permissions: { join: false } });
    if ((await enter(api.url, token)) !== null) throw new Error("a participant without permission was let in");
  }

  async function keepComing(number: number): Promise<void> {
    while (!stopped) {
      // The server dies under it: that is what this is for.
      await (number === 0 ? knock() : visit(`visitor-${number}`)).catch(() => Bun.sleep(20));
    }
  }
  const running = Array.from({ length: VISITORS }, (_, number) => keepComing(number));

  return {
    entered,
    more: (count) => new Promise((done) => waiting.push({ count: joins + count, done })),
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

type Line = WebSocket & { terminate(): void };

/** Null when it was not let in, or the server went away meanwhile. */
function enter(url: string, token: string): Promise<Line | null> {
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/rtc`, [`token.${token}`]) as Line;
  return new Promise((done) => {
    socket.onopen = () =>
      socket.send(JSON.stringify({ type: "room.join", id: "join", connectionId: crypto.randomUUID() }));
    socket.onmessage = ({ data }) => {
      const { type, id } = JSON.parse(String(data)) as { type: string; id?: string };
      if (id === "join") done(type === "ack" ? socket : null);
    };
    socket.onclose = () => done(null);
  });
}

function pick<T>(list: readonly T[]): T {
  return list[Math.floor(Math.random() * list.length)] as T;
}
