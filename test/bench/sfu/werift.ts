import { ON_SERVER_SIDE } from "../harness/own-network.ts";
import { asDtlsClient, type Contestant, isPublisher } from "./contestant.ts";

export async function werift(): Promise<Contestant> {
  const child = Bun.spawn([...ON_SERVER_SIDE, process.execPath, `${import.meta.dir}/werift-server.ts`], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const pending = new Map<number, (sdp: string) => void>();
  let nextId = 1;
  void (async () => {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, sdp } = JSON.parse(line);
        pending.get(id)?.(sdp);
        pending.delete(id);
      }
    }
  })();
  return {
    name: "werift",
    pid: child.pid,
    async negotiate(request) {
      const id = nextId++;
      const answered = Promise.withResolvers<string>();
      pending.set(id, answered.resolve);
      const offer = { id, sdp: asDtlsClient(request.sdp), publishes: isPublisher(request) };
      child.stdin.write(`${JSON.stringify(offer)}\n`);
      child.stdin.flush();
      return { sdp: await answered.promise, tracks: [] };
    },
    admit: () => Promise.resolve(),
    published: () => Promise.resolve([]),
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}
