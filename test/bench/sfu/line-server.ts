/** A server of another kind in a process of its own: offers go in and answers come out, one JSON object a line. */
import { ON_SERVER_SIDE } from "../harness/own-network.ts";
import { asDtlsClient, type Contestant, isPublisher } from "./contestant.ts";

type LineServer = Pick<Contestant, "negotiate" | "stop"> & {
  pid: number;
  /** The first line, of servers that say something about themselves. */
  introduction: Promise<unknown>;
};

export function startLineServer(command: readonly string[]): LineServer {
  const child = Bun.spawn([...ON_SERVER_SIDE, ...command], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const pending = new Map<number, PromiseWithResolvers<string>>();
  const introduction = Promise.withResolvers<unknown>();
  let nextId = 1;
  void (async () => {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const said = JSON.parse(line);
        if (said.id === undefined) introduction.resolve(said);
        pending.get(said.id)?.resolve(said.sdp);
        pending.delete(said.id);
      }
    }
    introduction.reject(new Error(`${command[0]} ended before it said a word`));
    for (const answered of pending.values()) answered.reject(new Error(`${command[0]} ended before it answered`));
  })();
  introduction.promise.catch(() => {});
  return {
    pid: child.pid,
    introduction: introduction.promise,
    async negotiate(request) {
      const id = nextId++;
      const answered = Promise.withResolvers<string>();
      pending.set(id, answered);
      const { roomId: room, participantId: participant } = request;
      const offer = { id, sdp: asDtlsClient(request.sdp), publishes: isPublisher(request), room, participant };
      child.stdin.write(`${JSON.stringify(offer)}\n`);
      child.stdin.flush();
      return { sdp: await answered.promise, tracks: [] };
    },
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}
