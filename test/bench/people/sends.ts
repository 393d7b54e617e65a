const EVERY_MS = 20;

export type Sends = {
  /** How long the answers took since the last call, in milliseconds. */
  take(): number[];
  /** Codes of those that were refused. */
  refused: string[];
  stop(): void;
};

/** Sends at a steady pace, whether or not the last one was answered: a client that waits is counted, too. */
export async function steadySends(url: string, token: string, room: string): Promise<Sends> {
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/chat/ws?token=${encodeURIComponent(token)}`);
  const started = new Map<string, number>();
  let times: number[] = [];
  const refused: string[] = [];
  let joined = () => {};
  const ready = new Promise<void>((done) => {
    joined = done;
  });
  socket.onmessage = ({ data }) => {
    const { type, id, code = "" } = JSON.parse(String(data)) as { type: string; id?: string; code?: string };
    if (type === "connected") socket.send(JSON.stringify({ type: "room.join", id: "join", room }));
    if (id === "join") joined();
    const at = started.get(id ?? "");
    if (id === undefined || at === undefined) return;
    started.delete(id);
    times.push(performance.now() - at);
    if (type === "error") refused.push(code);
  };
  await ready;
  let count = 0;
  const timer = setInterval(() => {
    const id = `s${count++}`;
    started.set(id, performance.now());
    socket.send(JSON.stringify({ type: "message.send", id, room, text: `meanwhile ${id}` }));
  }, EVERY_MS);
  return {
    take() {
      const taken = times;
      times = [];
      return taken;
    },
    refused,
    stop() {
      clearInterval(timer);
      socket.close();
    },
  };
}
