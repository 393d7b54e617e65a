/** Talks to `sfu-server.ts`: a media node in another process, and its CPU time. */
import { join } from "node:path";
import type { FanOutChoice } from "../../../src/nodes/native-library.ts";
import type { MediaMethod, MediaNode, MediaRequest, MediaResponse } from "../../../src/protocol/media-node.ts";
import { AS_INSTALLED } from "./as-installed.ts";
import { ended } from "./processes.ts";

export type Memory = { rss: number; heap: number; blocks: number; objectTypeCounts: Record<string, number> };

export type SfuProcess = {
  node: MediaNode;
  cpu(): Promise<NodeJS.CpuUsage>;
  /** The memory of an engine after garbage collection. */
  memory(): Promise<Memory>;
  pid: number;
  stop(): Promise<void>;
};

export type SfuProcessOptions = {
  /** Loopback unless given. */
  address?: string;
  workers?: number;
  /** A large room uses all of them. */
  spreads?: boolean;
  fanOut?: FanOutChoice;
  /** For Bun itself. */
  bunArgs?: string[];
  /** In front of the command. */
  prefix?: string[];
  /** Another checkout than this one. */
  root?: string;
  /** The server; by default a media node with its workers. */
  program?: "sfu-server.ts" | "sfu-engine.ts";
};

export function startSfuProcess(options: SfuProcessOptions = {}): SfuProcess {
  const {
    address,
    workers = 1,
    spreads = false,
    bunArgs = [],
    prefix = [],
    fanOut,
    root = join(import.meta.dir, "../../.."),
    program = "sfu-server.ts",
  } = options;
  const server = [join(root, "test/bench/harness", program), address ?? "127.0.0.1", String(workers)];
  const child = Bun.spawn([...prefix, process.execPath, ...bunArgs, ...server], {
    env: {
      ...AS_INSTALLED,
      ...process.env,
      MEDIA_SPREAD: spreads ? "auto" : "off",
      ...(fanOut && { MEDIA_FAN_OUT: fanOut }),
    },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const pending = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let nextId = 1;
  void (async () => {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      rest += decoder.decode(chunk, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, response, error } = JSON.parse(line);
        const waiting = pending.get(id);
        pending.delete(id);
        if (error) waiting?.reject(new Error(error));
        else waiting?.resolve(response);
      }
    }
  })();
  const send = (method: string, request: unknown): Promise<unknown> => {
    const id = nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    pending.set(id, { resolve, reject });
    child.stdin.write(`${JSON.stringify({ id, method, request })}\n`);
    child.stdin.flush();
    return promise;
  };
  const call =
    <M extends MediaMethod>(method: M) =>
    async (request: MediaRequest<M>) =>
      (await send(method, request)) as MediaResponse<M>;
  /** Exits by itself, so that a profile is written. */
  const stop = async () => {
    await child.stdin.end();
    await ended(child);
  };
  return {
    pid: child.pid,
    cpu: async () => (await send("cpu", {})) as NodeJS.CpuUsage,
    memory: async () => (await send("memory", {})) as Memory,
    stop,
    node: {
      openRoom: call("openRoom"),
      closeRoom: call("closeRoom"),
      addParticipant: call("addParticipant"),
      removeParticipant: call("removeParticipant"),
      setPermissions: call("setPermissions"),
      negotiate: call("negotiate"),
      updateSubscriptions: call("updateSubscriptions"),
      setTrackMuted: call("setTrackMuted"),
      unpublish: call("unpublish"),
      setNetwork: call("setNetwork"),
      limitDownlink: call("limitDownlink"),
      flight: call("flight"),
      sendData: call("sendData"),
      startRecording: call("startRecording"),
      stopRecording: call("stopRecording"),
      room: call("room"),
      rooms: () => call("rooms")(undefined),
      load: () => call("load")(undefined),
      linkPoint: call("linkPoint"),
      relay: call("relay"),
      onEvent: () => () => {},
      close: stop,
    },
  };
}
